SELECT region, model, status, sum(requests) AS requests
FROM requests_1m
WHERE time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
GROUP BY region, model, status
ORDER BY requests DESC
LIMIT 500
