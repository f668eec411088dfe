SELECT time, region, model, host_id, host_type,
  sum(CASE WHEN part = 'idle' THEN device_us END) AS idle_us,
  sum(CASE WHEN part = 'padding' THEN device_us END) AS padding_us,
  CAST(sum(CASE WHEN part IN ('idle', 'padding') THEN device_us END) AS DOUBLE) / nullif(CAST(sum(device_us) AS DOUBLE), 0.0) AS waste_share,
  sum(CASE WHEN part = 'idle' THEN list_cost END) AS idle_cost_usd,
  sum(CASE WHEN part = 'padding' THEN list_cost END) AS padding_cost_usd,
  sum(CASE WHEN part = 'idle' THEN energy_j END) AS idle_joules,
  string_agg(DISTINCT CASE WHEN energy_j IS NOT NULL THEN boundary END, ', ') AS boundary,
  string_agg(DISTINCT CASE WHEN energy_j IS NOT NULL THEN energy_method END, ', ') AS energy_method,
  string_agg(DISTINCT basis, ', ') AS basis, string_agg(DISTINCT method, ', ') AS method, min(price_as_of) AS oldest_price_as_of,
  -- both together; a sum of which a part is unknown is unknown
  CASE WHEN count(CASE WHEN public_cost IS NULL AND part IN ('idle', 'padding') AND (list_cost IS NOT NULL OR basis = 'no price') THEN 1 END) = 0 THEN sum(CASE WHEN part IN ('idle', 'padding') AND (list_cost IS NOT NULL OR basis = 'no price') THEN public_cost END) END AS list_cost_usd,
  CASE WHEN count(CASE WHEN effective_cost IS NULL AND part IN ('idle', 'padding') AND (list_cost IS NOT NULL OR basis = 'no price') THEN 1 END) = 0 THEN sum(CASE WHEN part IN ('idle', 'padding') AND (list_cost IS NOT NULL OR basis = 'no price') THEN effective_cost END) END AS effective_cost_usd,
  CASE WHEN count(CASE WHEN billed_cost IS NULL AND part IN ('idle', 'padding') AND (list_cost IS NOT NULL OR basis = 'no price') THEN 1 END) = 0 THEN sum(CASE WHEN part IN ('idle', 'padding') AND (list_cost IS NOT NULL OR basis = 'no price') THEN billed_cost END) END AS billed_cost_usd
FROM costs_hours
GROUP BY time, region, model, host_id, host_type
HAVING count(CASE WHEN part IN ('idle', 'padding') THEN 1 END) > 0
