SELECT region, model, host_type, part, sum(effective_cost) AS usd, sum(tokens) AS tokens, sum(energy_j) AS energy_j
FROM costs_1h
WHERE time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
GROUP BY region, model, host_type, part
ORDER BY usd DESC
