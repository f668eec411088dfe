WITH hours AS (
  SELECT CAST(time AS BIGINT) / 3600000000 AS hour, region, host_type, "option", option_source = 'assumed' AS is_assumed,
    sum(charged_us) AS charged_us, sum(cost_usd) AS cost_usd, min(price_as_of) AS price_as_of, basis,
    CASE WHEN count(CASE WHEN list_cost_usd IS NULL AND (cost_usd IS NOT NULL OR basis = 'no price') THEN 1 END) = 0 THEN sum(list_cost_usd) END AS list_cost_usd,
    CASE WHEN count(CASE WHEN effective_cost_usd IS NULL AND (cost_usd IS NOT NULL OR basis = 'no price') THEN 1 END) = 0 THEN sum(effective_cost_usd) END AS effective_cost_usd,
    CASE WHEN count(CASE WHEN billed_cost_usd IS NULL AND (cost_usd IS NOT NULL OR basis = 'no price') THEN 1 END) = 0 THEN sum(billed_cost_usd) END AS billed_cost_usd
  FROM node_cost
  GROUP BY CAST(time AS BIGINT) / 3600000000, region, host_type, "option", option_source, basis
),
options AS (
  SELECT hour, region, host_type,
    CAST(sum(charged_us) AS DOUBLE) / 3600000000.0 AS host_hours,
    CAST(sum(CASE WHEN "option" IN ('savings_plan', 'reserved', 'capacity_block') THEN charged_us ELSE 0 END) AS DOUBLE) / 3600000000.0 AS committed_hours,
    CAST(sum(CASE WHEN "option" = 'spot' THEN charged_us ELSE 0 END) AS DOUBLE) / 3600000000.0 AS spot_hours,
    CAST(sum(CASE WHEN "option" = 'on_demand' AND NOT is_assumed THEN charged_us ELSE 0 END) AS DOUBLE) / 3600000000.0 AS on_demand_hours,
    CAST(sum(CASE WHEN is_assumed THEN charged_us ELSE 0 END) AS DOUBLE) / 3600000000.0 AS assumed_on_demand_hours,
    sum(cost_usd) AS cost_usd,
    sum(CASE WHEN "option" IN ('savings_plan', 'reserved', 'capacity_block') THEN cost_usd END) AS committed_cost_usd,
    min(price_as_of) AS oldest_price_as_of, string_agg(DISTINCT basis, ', ' ORDER BY basis) AS basis,
    -- a sum of which a part is unknown is unknown
    CASE WHEN count(list_cost_usd) = count(*) THEN sum(list_cost_usd) END AS list_cost_usd,
    CASE WHEN count(effective_cost_usd) = count(*) THEN sum(effective_cost_usd) END AS effective_cost_usd,
    CASE WHEN count(billed_cost_usd) = count(*) THEN sum(billed_cost_usd) END AS billed_cost_usd,
    CASE WHEN count(CASE WHEN "option" IN ('savings_plan', 'reserved', 'capacity_block') AND effective_cost_usd IS NULL THEN 1 END) = 0 THEN
      sum(CASE WHEN "option" IN ('savings_plan', 'reserved', 'capacity_block') THEN effective_cost_usd END) END AS committed_effective_cost_usd
  FROM hours
  GROUP BY hour, region, host_type
)
SELECT arrow_cast(hour * 3600000000, 'Timestamp(Microsecond, Some("UTC"))') AS time, region, CAST(NULL AS VARCHAR) AS model, host_type,
  host_hours, committed_hours, spot_hours, on_demand_hours, assumed_on_demand_hours,
  committed_hours / nullif(committed_hours + on_demand_hours + assumed_on_demand_hours, 0.0) AS coverage,
  cost_usd, committed_cost_usd, basis, 'host hours by purchase option' AS method, oldest_price_as_of,
  list_cost_usd, effective_cost_usd, billed_cost_usd, committed_effective_cost_usd
FROM options
