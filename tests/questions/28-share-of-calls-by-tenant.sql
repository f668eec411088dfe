-- question: What share of all calls is each tenant's?
-- asked by: analyst
SELECT tenant, count(*) * 1.0 / sum(count(*)) OVER () AS share
FROM calls
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP)
GROUP BY tenant
ORDER BY share DESC, tenant
