SELECT time, part, sum(effective_cost) AS usd
FROM costs_1h
WHERE time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
GROUP BY time, part
ORDER BY time, part
