-- question: How many tenants are active in each minute?
-- asked by: analyst
SELECT time_bucket('1 minute', time) AS minute, count(DISTINCT tenant) AS tenants
FROM calls
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP)
GROUP BY minute
ORDER BY minute
