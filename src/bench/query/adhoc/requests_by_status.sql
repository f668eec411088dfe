SELECT region, model, status, count(*) AS requests, sum(output_tokens) AS output_tokens
FROM requests
WHERE measured_at = 'server'
GROUP BY region, model, status
ORDER BY region, model, status
