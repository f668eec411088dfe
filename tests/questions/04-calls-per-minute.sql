-- question: How many calls begin in each minute?
-- asked by: sre
SELECT time_bucket(INTERVAL '1 minute', time) AS minute, count(*) AS calls
FROM calls
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP)
GROUP BY minute
ORDER BY minute
