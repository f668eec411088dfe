SELECT time, status, sum(requests) AS requests
FROM requests_1m
WHERE measured_at = 'server' AND time >= TIMESTAMP '2026-07-08 12:00:00' AND time < TIMESTAMP '2026-07-08 13:00:00'
GROUP BY time, status
ORDER BY time, status
