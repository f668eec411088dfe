-- question: How full are the batches on each host?
-- asked by: sre
SELECT host_id, avg(batch_size) AS mean, max(batch_size) AS largest
FROM tokens
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP)
GROUP BY host_id
ORDER BY host_id
