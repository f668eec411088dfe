-- question: Which five calls took longest?
-- asked by: sre
SELECT trace_id, region, model, e2e_s, output_tokens
FROM calls
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP) AND e2e_s IS NOT NULL
ORDER BY e2e_s DESC
LIMIT 5
