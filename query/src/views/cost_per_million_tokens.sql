WITH minutes AS (
  -- tokens of hosts without a price are left out: their cost is unknown, not zero
  SELECT time, region, model, host_type,
    sum(cost_usd) AS allocation_usd,
    -- device time of calls whose tokens were not sent was given to calls all the same
    sum(CASE WHEN instance IS NOT NULL AND part IN ('requests', 'unattributed') THEN cost_usd END) AS usage_usd,
    sum(CASE WHEN basis <> 'no price' THEN input_tokens END) AS allocation_input,
    sum(CASE WHEN basis <> 'no price' THEN output_tokens END) AS allocation_output,
    -- device time is known of replicas alone, so only their tokens are paid by it
    sum(CASE WHEN instance IS NOT NULL AND basis <> 'no price' THEN input_tokens END) AS usage_input,
    sum(CASE WHEN instance IS NOT NULL AND basis <> 'no price' THEN output_tokens END) AS usage_output,
    count(DISTINCT CASE WHEN basis = 'no price' THEN host_id END) AS unpriced_hosts,
    string_agg(DISTINCT CASE WHEN basis <> 'no price' THEN basis END, ', ') AS price_basis,
    string_agg(DISTINCT method, ', ') AS method, min(price_as_of) AS oldest_price_as_of,
    -- a sum of which a part is unknown is unknown
    CASE WHEN count(CASE WHEN list_cost_usd IS NULL AND basis <> 'no price' THEN 1 END) = 0 THEN sum(CASE WHEN basis <> 'no price' THEN list_cost_usd END) END AS allocation_list_cost_usd,
    CASE WHEN count(CASE WHEN list_cost_usd IS NULL AND instance IS NOT NULL AND part IN ('requests', 'unattributed') AND basis <> 'no price' THEN 1 END) = 0 THEN sum(CASE WHEN instance IS NOT NULL AND part IN ('requests', 'unattributed') AND basis <> 'no price' THEN list_cost_usd END) END AS usage_list_cost_usd,
    CASE WHEN count(CASE WHEN effective_cost_usd IS NULL AND basis <> 'no price' THEN 1 END) = 0 THEN sum(CASE WHEN basis <> 'no price' THEN effective_cost_usd END) END AS allocation_effective_cost_usd,
    CASE WHEN count(CASE WHEN effective_cost_usd IS NULL AND instance IS NOT NULL AND part IN ('requests', 'unattributed') AND basis <> 'no price' THEN 1 END) = 0 THEN sum(CASE WHEN instance IS NOT NULL AND part IN ('requests', 'unattributed') AND basis <> 'no price' THEN effective_cost_usd END) END AS usage_effective_cost_usd,
    CASE WHEN count(CASE WHEN billed_cost_usd IS NULL AND basis <> 'no price' THEN 1 END) = 0 THEN sum(CASE WHEN basis <> 'no price' THEN billed_cost_usd END) END AS allocation_billed_cost_usd,
    CASE WHEN count(CASE WHEN billed_cost_usd IS NULL AND instance IS NOT NULL AND part IN ('requests', 'unattributed') AND basis <> 'no price' THEN 1 END) = 0 THEN sum(CASE WHEN instance IS NOT NULL AND part IN ('requests', 'unattributed') AND basis <> 'no price' THEN billed_cost_usd END) END AS usage_billed_cost_usd
  FROM replica_cost
  GROUP BY time, region, model, host_type
),
bases AS (
  SELECT *, unnest(make_array('allocation', 'usage')) AS basis, unnest(make_array(allocation_usd, usage_usd)) AS cost_usd,
    unnest(make_array(allocation_input, usage_input)) AS input_tokens,
    unnest(make_array(allocation_output, usage_output)) AS output_tokens,
    unnest(make_array(allocation_list_cost_usd, usage_list_cost_usd)) AS list_cost_usd,
    unnest(make_array(allocation_effective_cost_usd, usage_effective_cost_usd)) AS effective_cost_usd,
    unnest(make_array(allocation_billed_cost_usd, usage_billed_cost_usd)) AS billed_cost_usd
  FROM minutes
)
SELECT time, region, model, host_type, basis, cost_usd, input_tokens, output_tokens,
  CAST(cost_usd AS DOUBLE) / nullif(CAST(output_tokens AS DOUBLE), 0.0) * 1000000.0 AS usd_per_million_output_tokens,
  CAST(cost_usd AS DOUBLE) / nullif(CAST(input_tokens AS DOUBLE), 0.0) * 1000000.0 AS usd_per_million_input_tokens,
  CAST(cost_usd AS DOUBLE) / nullif(CAST(input_tokens + output_tokens AS DOUBLE), 0.0) * 1000000.0 AS usd_per_million_tokens,
  unpriced_hosts, price_basis, method, CASE basis WHEN 'allocation' THEN 'share' ELSE 'hide' END AS idle_policy, oldest_price_as_of,
  list_cost_usd, effective_cost_usd, billed_cost_usd
FROM bases
