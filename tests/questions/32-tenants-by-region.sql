-- question: Where are the calls of each tenant served?
-- asked by: analyst
SELECT tenant, count(*) FILTER (WHERE region = 'us-east-1') AS us, count(*) FILTER (WHERE region = 'eu-west-1') AS eu,
  count(*) FILTER (WHERE region = 'ap-northeast-1') AS ap
FROM calls
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP)
GROUP BY tenant
ORDER BY tenant NULLS LAST
