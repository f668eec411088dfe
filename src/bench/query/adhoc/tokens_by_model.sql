SELECT model, sum("count") AS tokens, count(*) AS token_rows, avg(batch_size) AS batch
FROM tokens
GROUP BY model
ORDER BY model
