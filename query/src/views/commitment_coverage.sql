WITH hours AS (
  SELECT CAST(time AS BIGINT) / 3600000000 AS hour, region, host_type, "option", option_source = 'assumed' AS is_assumed,
    sum(charged_us) AS charged_us, sum(cost_usd) AS cost_usd, min(price_as_of) AS price_as_of
  FROM node_cost
  GROUP BY CAST(time AS BIGINT) / 3600000000, region, host_type, "option", option_source
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
    min(price_as_of) AS oldest_price_as_of
  FROM hours
  GROUP BY hour, region, host_type
)
SELECT arrow_cast(hour * 3600000000, 'Timestamp(Microsecond, Some("UTC"))') AS time, region, CAST(NULL AS VARCHAR) AS model, host_type,
  host_hours, committed_hours, spot_hours, on_demand_hours, assumed_on_demand_hours,
  committed_hours / nullif(committed_hours + on_demand_hours + assumed_on_demand_hours, 0.0) AS coverage,
  cost_usd, committed_cost_usd, 'list' AS basis, 'host hours by purchase option' AS method, oldest_price_as_of
FROM options
