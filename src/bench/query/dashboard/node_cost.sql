SELECT time, part, sum(effective_cost) AS usd, sum(energy_j) AS energy_j
FROM costs_1h
WHERE host_id = '$host_id' AND time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
GROUP BY time, part
ORDER BY time, part
