SELECT time, region, model, tenant, 'requests' AS part, sum(cost_usd) AS cost_usd, sum(device_us) AS device_us,
  sum(output_tokens) AS output_tokens, string_agg(DISTINCT basis, ', ') AS basis, string_agg(DISTINCT method, ', ') AS method, 'show' AS idle_policy,
  min(price_as_of) AS oldest_price_as_of,
  -- a sum of which a part is unknown is unknown
  CASE WHEN count(CASE WHEN list_cost_usd IS NULL AND (cost_usd IS NOT NULL OR basis = 'no price') THEN 1 END) = 0 THEN sum(list_cost_usd) END AS list_cost_usd,
  CASE WHEN count(CASE WHEN effective_cost_usd IS NULL AND (cost_usd IS NOT NULL OR basis = 'no price') THEN 1 END) = 0 THEN sum(effective_cost_usd) END AS effective_cost_usd,
  CASE WHEN count(CASE WHEN billed_cost_usd IS NULL AND (cost_usd IS NOT NULL OR basis = 'no price') THEN 1 END) = 0 THEN sum(billed_cost_usd) END AS billed_cost_usd
FROM request_minute_cost
WHERE time >= arrow_cast((CAST(arrow_cast(now(), 'Timestamp(Microsecond, Some("UTC"))') AS BIGINT) - CAST(7 AS BIGINT) * 86400000000 + 7199999999) / 3600000000 * 3600000000, 'Timestamp(Microsecond, Some("UTC"))')
GROUP BY time, region, model, tenant, basis = 'no price'
UNION ALL
SELECT time, region, model, CAST(NULL AS VARCHAR), part, sum(cost_usd), sum(device_us), CAST(NULL AS BIGINT),
  string_agg(DISTINCT basis, ', '), max(method), 'show', min(price_as_of),
  CASE WHEN count(CASE WHEN list_cost_usd IS NULL AND (cost_usd IS NOT NULL OR basis = 'no price') THEN 1 END) = 0 THEN sum(list_cost_usd) END,
  CASE WHEN count(CASE WHEN effective_cost_usd IS NULL AND (cost_usd IS NOT NULL OR basis = 'no price') THEN 1 END) = 0 THEN sum(effective_cost_usd) END,
  CASE WHEN count(CASE WHEN billed_cost_usd IS NULL AND (cost_usd IS NOT NULL OR basis = 'no price') THEN 1 END) = 0 THEN sum(billed_cost_usd) END
FROM replica_cost
WHERE part <> 'requests' AND time >= arrow_cast((CAST(arrow_cast(now(), 'Timestamp(Microsecond, Some("UTC"))') AS BIGINT) - CAST(7 AS BIGINT) * 86400000000 + 7199999999) / 3600000000 * 3600000000, 'Timestamp(Microsecond, Some("UTC"))')
GROUP BY time, region, model, part, basis = 'no price'
UNION ALL
-- older hours as they were split while their tokens were kept
SELECT time, region, model, tenant, part, sum(list_cost), sum(device_us), sum(tokens), string_agg(DISTINCT basis, ', '),
  string_agg(DISTINCT method, ', ') || '; by the hour', 'show', min(price_as_of),
  CASE WHEN count(CASE WHEN public_cost IS NULL AND (list_cost IS NOT NULL OR basis = 'no price') THEN 1 END) = 0 THEN sum(public_cost) END,
  CASE WHEN count(CASE WHEN effective_cost IS NULL AND (list_cost IS NOT NULL OR basis = 'no price') THEN 1 END) = 0 THEN sum(effective_cost) END,
  CASE WHEN count(CASE WHEN billed_cost IS NULL AND (list_cost IS NOT NULL OR basis = 'no price') THEN 1 END) = 0 THEN sum(billed_cost) END
FROM costs_hours
WHERE time < arrow_cast((CAST(arrow_cast(now(), 'Timestamp(Microsecond, Some("UTC"))') AS BIGINT) - CAST(7 AS BIGINT) * 86400000000 + 7199999999) / 3600000000 * 3600000000, 'Timestamp(Microsecond, Some("UTC"))')
GROUP BY time, region, model, tenant, part, basis = 'no price'
