-- question: Which calls cost most?
-- asked by: finops
-- tolerance: cost_usd 0.0001%
SELECT trace_id, tenant, cost_usd, device_us
FROM request_cost
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP) AND cost_usd IS NOT NULL
ORDER BY cost_usd DESC, trace_id
LIMIT 5
