-- question: What does each tenant cost?
-- asked by: finops
-- tolerance: usd 0.0001%
SELECT tenant, sum(cost_usd) AS usd
FROM cost_per_tenant
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP) AND part = 'requests' AND cost_usd IS NOT NULL
GROUP BY tenant
ORDER BY tenant NULLS LAST
