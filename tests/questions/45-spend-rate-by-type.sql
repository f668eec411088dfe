-- question: What does each kind of instance cost per hour?
-- asked by: finops
-- tolerance: usd_per_hour 0.0001%
SELECT host_type, region, count(DISTINCT host_id) AS hosts, sum(cost_usd) * 6 AS usd_per_hour
FROM node_cost
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP) AND cost_usd IS NOT NULL
GROUP BY host_type, region
ORDER BY host_type, region
