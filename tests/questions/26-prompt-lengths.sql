-- question: How long are prompts, and how much of them comes from the cache?
-- asked by: analyst
SELECT model, avg(input_tokens) AS mean, max(input_tokens) AS longest,
  CAST(sum(cached_input_tokens) AS DOUBLE) / sum(input_tokens) AS cached_share
FROM calls
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP)
GROUP BY model
ORDER BY model
