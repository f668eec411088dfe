SELECT time, region, model, environment, cluster, pool, namespace, host_type, sum(list_cost) AS cost_usd, sum(effective_cost) AS effective_cost_usd,
  sum(tokens) AS output_tokens, sum(device_us) AS device_us, count(DISTINCT host_id) AS hosts,
  CASE WHEN namespace IS NULL THEN 'its calls name neither tenant nor namespace' ELSE 'its calls name no tenant' END AS reason,
  string_agg(DISTINCT basis, ', ') AS basis, string_agg(DISTINCT method, ', ') AS method, min(price_as_of) AS price_as_of, 'hide' AS idle_policy
FROM costs_hours
WHERE part = 'requests' AND tenant IS NULL
GROUP BY time, region, model, environment, cluster, pool, namespace, host_type
