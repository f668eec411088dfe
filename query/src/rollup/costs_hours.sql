WITH parts AS (
  SELECT time, region, environment, cluster, pool, host_id, host_type, tenant, namespace, model, 'requests' AS part, replica, weight,
    cost_usd, effective_cost_usd, billed_cost_usd, list_cost_usd, contracted_cost_usd, device_us, output_tokens AS tokens, basis, method, price_as_of, price_confidence,
    CAST(NULL AS DOUBLE) AS joules, CAST(NULL AS VARCHAR) AS boundary, CAST(NULL AS VARCHAR) AS energy_method,
    CAST(NULL AS VARCHAR) AS energy_confidence, false AS is_all_calls, instance, trace_id, request_span_id
  FROM request_minute_cost
  UNION ALL
  SELECT time, region, environment, cluster, pool, host_id, host_type, NULL, NULL, model, part, replica, weight,
    cost_usd, effective_cost_usd, billed_cost_usd, list_cost_usd, contracted_cost_usd, device_us, NULL, basis, method, price_as_of, price_confidence,
    joules, boundary, energy_method, energy_confidence, part = 'requests', instance, NULL, NULL
  FROM replica_account
),
drawn AS (
  -- the joules of a replica's calls stand on a row of their own, and follow what the calls' money follows
  SELECT time, region, environment, cluster, pool, host_id, host_type, tenant, namespace, model, part, cost_usd, effective_cost_usd,
    billed_cost_usd, list_cost_usd, contracted_cost_usd, device_us, tokens, basis, method, price_as_of, price_confidence, is_all_calls,
    instance, trace_id, request_span_id,
    CASE
      WHEN part <> 'requests' THEN joules
      ELSE sum(joules) OVER one_part * CAST(weight AS DOUBLE)
        / nullif(CAST(sum(CASE WHEN NOT is_all_calls THEN weight END) OVER one_part AS DOUBLE), 0.0)
    END AS joules,
    max(boundary) OVER one_part AS boundary, max(energy_method) OVER one_part AS energy_method,
    max(energy_confidence) OVER one_part AS energy_confidence
  FROM parts
  WINDOW one_part AS (PARTITION BY time, host_id, replica, part)
),
keyed AS (
  SELECT *, CAST(NULL AS VARCHAR) AS allocation FROM drawn
)
SELECT arrow_cast(CAST(time AS BIGINT) / 3600000000 * 3600000000, 'Timestamp(Microsecond, Some("UTC"))') AS time, region, model,
  environment, cluster, pool, host_id, host_type, tenant, namespace, part, 'USD' AS currency,
  sum(cost_usd) AS list_cost, sum(effective_cost_usd) AS effective_cost, sum(billed_cost_usd) AS billed_cost,
  sum(joules) AS energy_j, sum(device_us) AS device_us, sum(tokens) AS tokens, basis, method, price_confidence AS confidence,
  boundary, energy_method, energy_confidence, min(price_as_of) AS price_as_of, allocation,
  -- a sum of which a part is unknown is unknown
  CASE WHEN count(CASE WHEN list_cost_usd IS NULL AND cost_usd IS NOT NULL THEN 1 END) = 0 THEN sum(list_cost_usd) END AS public_cost,
  CASE WHEN count(CASE WHEN contracted_cost_usd IS NULL AND cost_usd IS NOT NULL THEN 1 END) = 0 THEN sum(contracted_cost_usd) END AS contracted_cost
FROM keyed
WHERE NOT is_all_calls
GROUP BY CAST(time AS BIGINT) / 3600000000, region, model, environment, cluster, pool, host_id, host_type, tenant, namespace, part,
  basis, method, price_confidence, boundary, energy_method, energy_confidence, allocation
