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
  'show' AS idle_policy,
  -- a sum of which a part is unknown is unknown
  CASE WHEN count(CASE WHEN list_cost_usd IS NULL AND (cost_usd IS NOT NULL OR basis = 'no price') THEN 1 END) = 0 THEN sum(list_cost_usd) END AS list_cost_usd,
  CASE WHEN count(CASE WHEN effective_cost_usd IS NULL AND (cost_usd IS NOT NULL OR basis = 'no price') THEN 1 END) = 0 THEN sum(effective_cost_usd) END AS effective_cost_usd,
  CASE WHEN count(CASE WHEN billed_cost_usd IS NULL AND (cost_usd IS NOT NULL OR basis = 'no price') THEN 1 END) = 0 THEN sum(billed_cost_usd) END AS billed_cost_usd
FROM replica_cost
GROUP BY time, region, model
