-- question: Which model needs most energy for a token?
-- asked by: finops
SELECT model, sum(joules) / CAST(sum(output_tokens) AS DOUBLE) AS joules_per_token
FROM energy_per_token
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP)
GROUP BY model
ORDER BY model
