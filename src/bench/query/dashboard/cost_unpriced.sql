SELECT host_type, model, count(DISTINCT host_id) AS hosts, sum(device_us) AS device_us
FROM costs_1h
WHERE effective_cost IS NULL AND time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
GROUP BY host_type, model
ORDER BY device_us DESC
