-- question: How many tokens does each tenant use?
-- asked by: analyst
SELECT tenant, count(*) AS calls, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens
FROM calls
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP)
GROUP BY tenant
ORDER BY tenant NULLS LAST
