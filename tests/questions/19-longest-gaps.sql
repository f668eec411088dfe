-- question: In which calls was the longest silence between two tokens?
-- asked by: sre
SELECT trace_id, max(gap_s) AS gap_s
FROM token_gaps
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP)
GROUP BY trace_id
ORDER BY gap_s DESC NULLS LAST, trace_id
LIMIT 10
