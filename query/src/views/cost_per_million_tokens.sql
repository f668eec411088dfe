WITH minutes AS (
  -- tokens of hosts without a price are left out: their cost is unknown, not zero
  SELECT time, region, model,
    sum(cost_usd) AS allocation_usd,
    sum(CASE WHEN part = 'requests' THEN cost_usd END) AS usage_usd,
    sum(CASE WHEN basis <> 'no price' THEN input_tokens END) AS input_tokens,
    sum(CASE WHEN basis <> 'no price' THEN output_tokens END) AS output_tokens,
    count(DISTINCT CASE WHEN basis = 'no price' THEN host_id END) AS unpriced_hosts,
    string_agg(DISTINCT CASE WHEN basis <> 'no price' THEN basis END, ', ') AS price_basis,
    string_agg(DISTINCT method, ', ') AS method
  FROM replica_cost
  GROUP BY time, region, model
),
bases AS (
  SELECT *, unnest(make_array('allocation', 'usage')) AS basis, unnest(make_array(allocation_usd, usage_usd)) AS cost_usd
  FROM minutes
)
SELECT time, region, model, basis, cost_usd, input_tokens, output_tokens,
  CAST(cost_usd AS DOUBLE) / nullif(CAST(output_tokens AS DOUBLE), 0.0) * 1000000.0 AS usd_per_million_output_tokens,
  CAST(cost_usd AS DOUBLE) / nullif(CAST(input_tokens AS DOUBLE), 0.0) * 1000000.0 AS usd_per_million_input_tokens,
  CAST(cost_usd AS DOUBLE) / nullif(CAST(input_tokens + output_tokens AS DOUBLE), 0.0) * 1000000.0 AS usd_per_million_tokens,
  unpriced_hosts, price_basis, method
FROM bases
