SELECT host_id, avg(utilization) AS share, sum(energy_j) AS joules
FROM devices_1m
WHERE time >= TIMESTAMP '2026-07-08 12:00:00' AND time < TIMESTAMP '2026-07-08 13:00:00'
GROUP BY host_id
HAVING avg(utilization) < 0.94
ORDER BY share, host_id
LIMIT 20
