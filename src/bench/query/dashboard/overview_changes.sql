SELECT 'rollout' AS kind, region, service_version AS what, min(time) AS time
FROM requests_1m
WHERE time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
GROUP BY region, service_version
UNION ALL
SELECT 'price' AS kind, region, host_type AS what, effective_from AS time
FROM prices
WHERE effective_from >= TIMESTAMP '2026-07-08 00:00:00' AND effective_from < TIMESTAMP '2026-07-09 00:00:00'
ORDER BY time DESC
LIMIT 50
