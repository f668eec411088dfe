-- question: What does each host cost, and by which price?
-- asked by: finops
-- tolerance: usd 0.0001%, usd_per_hour 0.0001%
SELECT host_id, host_type, max("option") AS "option", sum(cost_usd) AS usd, max(usd_per_hour) AS usd_per_hour
FROM node_cost
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP)
GROUP BY host_id, host_type
ORDER BY host_id
