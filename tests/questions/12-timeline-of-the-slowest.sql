-- question: When did each token of the slowest call leave?
-- asked by: sre
SELECT "index", time, gap_s, stall, batch_size
FROM token_gaps
WHERE trace_id = (SELECT trace_id FROM calls WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP) ORDER BY e2e_s DESC NULLS LAST LIMIT 1)
ORDER BY "index"
