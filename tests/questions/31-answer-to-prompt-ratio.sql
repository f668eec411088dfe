-- question: How many tokens does each tenant get for one that it sends?
-- asked by: analyst
SELECT tenant, CAST(sum(output_tokens) AS DOUBLE) / sum(input_tokens) AS ratio
FROM calls
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP) AND tenant IS NOT NULL
GROUP BY tenant
ORDER BY tenant
