SELECT bucket, CAST(sum(bad) OVER hour AS DOUBLE) / sum(requests) OVER hour AS bad_1h,
  CAST(sum(bad) OVER quarter AS DOUBLE) / sum(requests) OVER quarter AS bad_6h
FROM (
  SELECT date_bin(INTERVAL '5 minutes', time) AS bucket, sum(requests - good) AS bad, sum(requests) AS requests
  FROM requests_1m
  WHERE measured_at = 'server' AND region = 'eu-west-1' AND model = 'llama-3-70b'
    AND time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
  GROUP BY bucket
)
WINDOW hour AS (ORDER BY bucket ROWS BETWEEN 11 PRECEDING AND CURRENT ROW),
  quarter AS (ORDER BY bucket ROWS BETWEEN 71 PRECEDING AND CURRENT ROW)
ORDER BY bucket
