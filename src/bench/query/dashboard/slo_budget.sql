SELECT bucket, sum(bad) OVER (ORDER BY bucket) AS bad, sum(requests) OVER (ORDER BY bucket) AS requests
FROM (
  SELECT date_bin(INTERVAL '5 minutes', time) AS bucket, sum(requests - good) AS bad, sum(requests) AS requests
  FROM requests_1m
  WHERE measured_at = 'server' AND region = 'eu-west-1' AND model = 'llama-3-70b'
    AND time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
  GROUP BY bucket
)
ORDER BY bucket
