SELECT time, region, model,
  count(DISTINCT host_id) AS hosts,
  sum(cost_usd) AS cost_usd,
  sum(CASE WHEN cost_usd IS NULL THEN NULL WHEN part = 'requests' THEN cost_usd ELSE CAST(0 AS DECIMAL(38,12)) END) AS requests_cost_usd,
  sum(CASE WHEN cost_usd IS NULL THEN NULL WHEN part = 'padding' THEN cost_usd ELSE CAST(0 AS DECIMAL(38,12)) END) AS padding_cost_usd,
  sum(CASE WHEN cost_usd IS NULL THEN NULL WHEN part = 'idle' THEN cost_usd ELSE CAST(0 AS DECIMAL(38,12)) END) AS idle_cost_usd,
  sum(CASE WHEN cost_usd IS NULL THEN NULL WHEN part = 'unattributed' THEN cost_usd ELSE CAST(0 AS DECIMAL(38,12)) END) AS unattributed_cost_usd,
  sum(CASE WHEN cost_usd IS NULL THEN NULL WHEN part = 'shared' THEN cost_usd ELSE CAST(0 AS DECIMAL(38,12)) END) AS shared_cost_usd,
  sum(usd_per_hour) AS usd_per_hour,
  count(DISTINCT CASE WHEN basis = 'no price' THEN host_id END) AS unpriced_hosts,
  string_agg(DISTINCT CASE WHEN basis = 'no price' THEN coalesce(host_type, 'unknown type') || ' ' || replace("option", '_', '-') || ' in ' || coalesce(region, 'no region') END, ', ') AS unpriced,
  string_agg(DISTINCT CASE WHEN basis <> 'no price' THEN basis END, ', ') AS basis,
  string_agg(DISTINCT method, ', ') AS method,
  min(price_as_of) AS oldest_price_as_of,
  'show' AS idle_policy
FROM replica_cost
GROUP BY time, region, model
