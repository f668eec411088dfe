SELECT tenant, sum(effective_cost) AS usd, sum(tokens) AS tokens
FROM costs_1h
WHERE time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
GROUP BY tenant
ORDER BY usd DESC, tenant
LIMIT 25
