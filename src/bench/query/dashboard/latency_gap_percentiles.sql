WITH buckets AS (
  SELECT model, index, sum(count) AS count
  FROM (
    SELECT model, unnest(gap_idx) AS index, unnest(gap_cnt) AS count
    FROM tokens_1m
    WHERE time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
  )
  GROUP BY model, index
),
ranked AS (
  SELECT model, index, sum(count) OVER (PARTITION BY model ORDER BY index) AS rank, sum(count) OVER (PARTITION BY model) AS total
  FROM buckets
)
SELECT model, power(2.0, (min(CASE WHEN rank >= 0.5 * total THEN index END) + 0.5) / 32.0) AS gap_p50_s,
  power(2.0, (min(CASE WHEN rank >= 0.99 * total THEN index END) + 0.5) / 32.0) AS gap_p99_s
FROM ranked
GROUP BY model
ORDER BY model
