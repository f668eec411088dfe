-- question: Which hosts have no price, and how long did they run?
-- asked by: finops
SELECT host_id, host_type, count(*) AS minutes, count(cost_usd) AS with_cost
FROM node_cost
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP) AND basis = 'no price'
GROUP BY host_id, host_type
ORDER BY host_id
