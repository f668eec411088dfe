-- question: What share of tokens waited because their call was preempted?
-- asked by: sre
SELECT host_id, sum(CASE WHEN stall = 'preempted' THEN "count" ELSE 0 END) * 1.0 / sum("count") AS share
FROM tokens
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP)
GROUP BY host_id
ORDER BY host_id
