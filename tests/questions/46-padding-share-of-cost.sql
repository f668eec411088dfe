-- question: What share of each host's cost is spent on padding?
-- asked by: finops
-- tolerance: share 0.0001%
SELECT host_id, CAST(sum(CASE WHEN part = 'padding' THEN cost_usd ELSE 0 END) AS DOUBLE) / CAST(sum(cost_usd) AS DOUBLE) AS share
FROM replica_cost
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP) AND cost_usd IS NOT NULL
GROUP BY host_id
ORDER BY host_id
