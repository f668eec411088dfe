-- question: When did calls fail, and of what?
-- asked by: sre
SELECT time_bucket('1 minute', time) AS minute, error_type, count(*) AS calls
FROM calls
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP) AND status = 'error'
GROUP BY minute, error_type
ORDER BY minute, error_type
