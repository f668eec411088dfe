SELECT time, region, model, tenant, 'requests' AS part, sum(cost_usd) AS cost_usd, sum(device_us) AS device_us,
  sum(output_tokens) AS output_tokens, string_agg(DISTINCT basis, ', ') AS basis, string_agg(DISTINCT method, ', ') AS method, 'show' AS idle_policy,
  min(price_as_of) AS oldest_price_as_of
FROM request_minute_cost
GROUP BY time, region, model, tenant, basis = 'no price'
UNION ALL
SELECT time, region, model, CAST(NULL AS VARCHAR), part, sum(cost_usd), sum(device_us), CAST(NULL AS BIGINT),
  string_agg(DISTINCT basis, ', '), max(method), 'show', min(price_as_of)
FROM replica_cost
WHERE part <> 'requests'
GROUP BY time, region, model, part, basis = 'no price'
