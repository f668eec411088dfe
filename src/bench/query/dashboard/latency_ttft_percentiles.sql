WITH buckets AS (
  SELECT bucket, index, sum(count) AS count
  FROM (
    SELECT date_bin(INTERVAL '5 minutes', time) AS bucket, unnest(ttft_idx) AS index, unnest(ttft_cnt) AS count
    FROM requests_1m
    WHERE measured_at = 'server' AND time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
  )
  GROUP BY bucket, index
),
ranked AS (
  SELECT bucket, index, sum(count) OVER (PARTITION BY bucket ORDER BY index) AS rank, sum(count) OVER (PARTITION BY bucket) AS total
  FROM buckets
)
SELECT bucket, power(2.0, (min(CASE WHEN rank >= 0.5 * total THEN index END) + 0.5) / 32.0) AS ttft_p50_s,
  power(2.0, (min(CASE WHEN rank >= 0.9 * total THEN index END) + 0.5) / 32.0) AS ttft_p90_s,
  power(2.0, (min(CASE WHEN rank >= 0.99 * total THEN index END) + 0.5) / 32.0) AS ttft_p99_s
FROM ranked
GROUP BY bucket
ORDER BY bucket
