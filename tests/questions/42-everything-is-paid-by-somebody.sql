-- question: Do the tenants' shares, padding and idle add up to what the hosts cost?
-- asked by: finops
-- tolerance: parts_usd 0.0001%, hosts_usd 0.0001%
SELECT (SELECT sum(cost_usd) FROM cost_per_tenant WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP)) AS parts_usd, (SELECT sum(cost_usd) FROM node_cost WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP)) AS hosts_usd
