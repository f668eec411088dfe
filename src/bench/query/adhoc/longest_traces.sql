SELECT trace_id, sum("count") AS tokens, max(batch_size) AS batch
FROM tokens
GROUP BY trace_id
HAVING sum("count") > 500
ORDER BY tokens DESC, trace_id
LIMIT 20
