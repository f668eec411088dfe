SELECT model, count(DISTINCT trace_id) AS traces
FROM tokens
GROUP BY model
ORDER BY model
