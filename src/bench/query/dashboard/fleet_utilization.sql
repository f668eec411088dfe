SELECT date_bin(INTERVAL '5 minutes', time) AS bucket, region, sum(utilization * devices) / sum(devices) AS utilization, sum(devices) / 5 AS devices
FROM devices_1m
WHERE kind = 'accelerator' AND time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
GROUP BY bucket, region
ORDER BY bucket, region
