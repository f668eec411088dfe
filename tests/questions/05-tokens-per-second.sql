-- question: How many tokens a second leave the fleet, minute by minute?
-- asked by: sre
SELECT time_bucket(INTERVAL '1 minute', time) AS minute, sum("count") / 60.0 AS tokens_per_s
FROM tokens
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP)
GROUP BY minute
ORDER BY minute
