SELECT tenant, region, sum("count") AS tokens, sum(device_us) AS device_us
FROM tokens
GROUP BY tenant, region
ORDER BY tokens DESC, tenant, region
LIMIT 20
