SELECT date_bin(INTERVAL '5 minutes', time) AS bucket, approx_percentile_cont(0.1) WITHIN GROUP (ORDER BY utilization) AS p10,
  approx_percentile_cont(0.9) WITHIN GROUP (ORDER BY utilization) AS p90
FROM devices_1m
WHERE region = 'eu-west-1' AND host_type = 'trn1.32xlarge'
  AND time >= TIMESTAMP '2026-07-08 12:00:00' AND time < TIMESTAMP '2026-07-08 13:00:00'
GROUP BY bucket
ORDER BY bucket
