-- question: How long are the answers of each model?
-- asked by: analyst
-- tolerance: p90 1.09%
SELECT model, avg(output_tokens) AS mean, exph_quantile(exph(output_tokens), 0.9) AS p90, max(output_tokens) AS longest
FROM calls
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP) AND output_tokens IS NOT NULL
GROUP BY model
ORDER BY model
