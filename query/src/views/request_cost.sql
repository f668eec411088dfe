SELECT min(time) AS time, max(region) AS region, max(model) AS model, max(tenant) AS tenant, trace_id, request_span_id,
  max(host_id) AS host_id, max(host_type) AS host_type, max(instance) AS instance,
  sum(device_us) AS device_us, sum(output_tokens) AS output_tokens,
  CASE WHEN count(cost_usd) = count(*) THEN sum(cost_usd) END AS cost_usd,
  string_agg(DISTINCT basis, ', ') AS basis, string_agg(DISTINCT method, ', ') AS method,
  'hide' AS idle_policy, min(price_as_of) AS oldest_price_as_of,
  CASE WHEN count(list_cost_usd) = count(*) THEN sum(list_cost_usd) END AS list_cost_usd,
  CASE WHEN count(effective_cost_usd) = count(*) THEN sum(effective_cost_usd) END AS effective_cost_usd,
  CASE WHEN count(billed_cost_usd) = count(*) THEN sum(billed_cost_usd) END AS billed_cost_usd
FROM request_minute_cost
GROUP BY trace_id, request_span_id
