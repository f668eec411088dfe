-- question: What does a million output tokens cost by the device time they took?
-- asked by: finops
-- tolerance: usd_per_million 0.0001%
SELECT region, model, CAST(sum(cost_usd) AS DOUBLE) / sum(output_tokens) * 1000000 AS usd_per_million
FROM cost_per_million_tokens
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP) AND basis = 'usage' AND cost_usd IS NOT NULL
GROUP BY region, model
ORDER BY region, model
