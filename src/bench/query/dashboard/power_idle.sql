SELECT region, host_type, avg(power_w / devices) AS idle_w, count(*) AS host_minutes
FROM devices_1m
WHERE kind = 'accelerator' AND utilization < 0.3 AND time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
GROUP BY region, host_type
ORDER BY region, host_type
