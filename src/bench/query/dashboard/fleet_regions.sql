SELECT region, host_type, count(DISTINCT host_id) AS hosts, max(devices) * count(DISTINCT host_id) AS devices, avg(utilization) AS utilization,
  sum(energy_j) / 900.0 AS power_w, avg(waiting) AS waiting
FROM devices_1m
WHERE kind = 'accelerator' AND time >= TIMESTAMP '2026-07-08 12:45:00' AND time < TIMESTAMP '2026-07-08 13:00:00'
GROUP BY region, host_type
ORDER BY region, host_type
