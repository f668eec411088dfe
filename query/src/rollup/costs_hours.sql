WITH parts AS (
  SELECT time, region, environment, cluster, pool, host_id, host_type, tenant, namespace, model, 'requests' AS part, replica, weight,
    cost_usd, effective_cost_usd, billed_cost_usd, device_us, output_tokens AS tokens, basis, method, price_as_of, price_confidence
  FROM request_minute_cost
  UNION ALL
  SELECT time, region, environment, cluster, pool, host_id, host_type, NULL, NULL, model, part, coalesce(instance, ''), weight,
    cost_usd, effective_cost_usd, billed_cost_usd, device_us, NULL, basis, method, price_as_of, price_confidence
  FROM replica_cost
  WHERE part <> 'requests'
),
drawn AS (
  SELECT p.*, e.boundary, e.method AS energy_method, e.confidence AS energy_confidence,
    -- a replica's joules for calls follow what their money follows
    CASE
      WHEN p.part <> 'requests' THEN e.joules
      ELSE e.joules * CAST(p.weight AS DOUBLE) / nullif(CAST(sum(p.weight) OVER one_part AS DOUBLE), 0.0)
    END AS joules
  FROM parts AS p
  LEFT JOIN replica_energy AS e ON e.time = p.time AND e.host_id = p.host_id AND e.replica = p.replica AND e.part = p.part
  WINDOW one_part AS (PARTITION BY p.time, p.host_id, p.replica, p.part)
)
SELECT arrow_cast(CAST(time AS BIGINT) / 3600000000 * 3600000000, 'Timestamp(Microsecond, Some("UTC"))') AS time, region, model,
  environment, cluster, pool, host_id, host_type, tenant, namespace, part, 'USD' AS currency,
  sum(cost_usd) AS list_cost, sum(effective_cost_usd) AS effective_cost, sum(billed_cost_usd) AS billed_cost,
  sum(joules) AS energy_j, sum(device_us) AS device_us, sum(tokens) AS tokens, basis, method, price_confidence AS confidence,
  boundary, energy_method, energy_confidence, min(price_as_of) AS price_as_of
FROM drawn
GROUP BY CAST(time AS BIGINT) / 3600000000, region, model, environment, cluster, pool, host_id, host_type, tenant, namespace, part,
  basis, method, price_confidence, boundary, energy_method, energy_confidence
