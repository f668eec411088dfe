SELECT host_type, CAST(floor(utilization * 20.0) AS BIGINT) AS bucket, avg(power_w / devices) AS w_per_device, count(*) AS host_minutes
FROM devices_1m
WHERE time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
GROUP BY host_type, bucket
ORDER BY host_type, bucket
