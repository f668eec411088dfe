WITH days AS (
  -- a host without a price has neither cost nor tokens here
  SELECT CAST(time AS BIGINT) / 86400000000 AS day, region, model, sum(list_cost) AS cost_usd, sum(tokens) AS output_tokens,
    string_agg(DISTINCT basis, ', ') AS price_basis, string_agg(DISTINCT method, ', ') AS method, min(price_as_of) AS oldest_price_as_of,
    CASE WHEN count(CASE WHEN public_cost IS NULL AND (list_cost IS NOT NULL) THEN 1 END) = 0 THEN sum(public_cost) END AS list_cost_usd,
    CASE WHEN count(CASE WHEN effective_cost IS NULL AND (list_cost IS NOT NULL) THEN 1 END) = 0 THEN sum(effective_cost) END AS effective_cost_usd,
    CASE WHEN count(CASE WHEN billed_cost IS NULL AND (list_cost IS NOT NULL) THEN 1 END) = 0 THEN sum(billed_cost) END AS billed_cost_usd
  FROM costs_hours
  WHERE basis <> 'no price'
  GROUP BY CAST(time AS BIGINT) / 86400000000, region, model
),
rates AS (
  SELECT *, CAST(cost_usd AS DOUBLE) / nullif(CAST(output_tokens AS DOUBLE), 0.0) * 1000000.0 AS usd_per_million
  FROM days
),
beside AS (
  SELECT *, CASE WHEN lag(day) OVER days_of = day - 1 THEN lag(usd_per_million) OVER days_of END AS day_before,
    sum(CAST(cost_usd AS DOUBLE)) OVER week AS week_usd, sum(output_tokens) OVER week AS week_tokens
  FROM rates
  WINDOW days_of AS (PARTITION BY region, model ORDER BY day),
    week AS (PARTITION BY region, model ORDER BY day RANGE BETWEEN 7 PRECEDING AND 1 PRECEDING)
)
SELECT arrow_cast(day * 86400000000, 'Timestamp(Microsecond, Some("UTC"))') AS time, region, model, 'allocation' AS basis, 'share' AS idle_policy,
  cost_usd, output_tokens, usd_per_million AS usd_per_million_output_tokens,
  usd_per_million / nullif(day_before, 0.0) - 1.0 AS change_since_day_before,
  usd_per_million / nullif(week_usd / nullif(CAST(week_tokens AS DOUBLE), 0.0) * 1000000.0, 0.0) - 1.0 AS change_since_week_before,
  price_basis, method, oldest_price_as_of, list_cost_usd, effective_cost_usd, billed_cost_usd
FROM beside
