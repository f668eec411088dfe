-- question: How many tokens does a joule give in each region?
-- asked by: finops
SELECT region, CAST(sum(output_tokens) AS DOUBLE) / sum(joules) AS tokens_per_joule
FROM perf_per_watt
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP) AND boundary = 'node'
GROUP BY region
ORDER BY region
