WITH known AS (
  SELECT *, row_number() OVER (PARTITION BY name ORDER BY effective_from DESC, effective_to IS NULL) AS place
  FROM budgets
  WHERE currency = 'USD'
),
begun AS (
  SELECT name, allocation_key, allocation_value, amount, period, enforcement, effective_from,
    arrow_cast(now(), 'Timestamp(Microsecond, Some("UTC"))') AS as_of,
    CASE period
      WHEN 'day' THEN date_trunc('day', arrow_cast(now(), 'Timestamp(Microsecond, Some("UTC"))'))
      WHEN 'week' THEN date_trunc('week', arrow_cast(now(), 'Timestamp(Microsecond, Some("UTC"))'))
      WHEN 'month' THEN date_trunc('month', arrow_cast(now(), 'Timestamp(Microsecond, Some("UTC"))'))
      ELSE arrow_cast(
        CAST(arrow_cast(now(), 'Timestamp(Microsecond, Some("UTC"))') AS BIGINT) - try_cast(replace(period, 'd', '') AS BIGINT) * 86400000000,
        'Timestamp(Microsecond, Some("UTC"))'
      )
    END AS period_start
  FROM known
  WHERE place = 1 AND effective_to IS NULL
),
in_force AS (
  SELECT *,
    CASE period
      WHEN 'day' THEN period_start + INTERVAL '1 day'
      WHEN 'week' THEN period_start + INTERVAL '7 days'
      WHEN 'month' THEN period_start + INTERVAL '1 month'
    END AS period_end,
    CASE period
      WHEN 'day' THEN period_start - INTERVAL '1 day'
      WHEN 'week' THEN period_start - INTERVAL '7 days'
      WHEN 'month' THEN period_start - INTERVAL '1 month'
    END AS last_start
  FROM begun
),
hours AS (
  SELECT time, region, environment, cluster, pool, model, host_type, tenant, namespace, allocation, basis, method,
    sum(list_cost) AS estimated, sum(effective_cost) AS effective, sum(coalesce(effective_cost, list_cost)) AS spent,
    max(CASE WHEN list_cost IS NULL AND effective_cost IS NULL THEN 1 ELSE 0 END) AS is_unpriced, min(price_as_of) AS price_as_of
  FROM costs_hours
  WHERE time >= now() - INTERVAL '92 days'
  GROUP BY time, region, environment, cluster, pool, model, host_type, tenant, namespace, allocation, basis, method
),
keyed AS (
  SELECT time, basis, method, estimated, effective, spent, is_unpriced, price_as_of,
    unnest(array_concat(
      make_array('tenant', 'namespace', 'environment', 'cluster', 'pool', 'region', 'model', 'host_type'), allocation_keys(allocation, '')
    )) AS key,
    unnest(array_concat(
      make_array(tenant, namespace, environment, cluster, pool, region, model, host_type), allocation_values(allocation, '')
    )) AS value
  FROM hours
),
charged AS (
  SELECT o.name, o.as_of, o.period_start, o.last_start, k.time, k.basis, k.method, k.estimated, k.effective, k.spent, k.is_unpriced, k.price_as_of,
    -- how many days ago, counted in whole days back from now
    (CAST(o.as_of AS BIGINT) - CAST(k.time AS BIGINT)) / 86400000000 AS days_ago
  FROM in_force AS o
  JOIN keyed AS k ON k.key = o.allocation_key AND k.value = o.allocation_value
),
days AS (
  SELECT name, days_ago, sum(spent) AS spent
  FROM charged
  WHERE days_ago <= 7
  GROUP BY name, days_ago
),
pace AS (
  SELECT name, sum(CASE WHEN days_ago = 0 THEN spent END) AS burn,
    min(CASE WHEN days_ago BETWEEN 1 AND 7 THEN spent END) AS least, max(CASE WHEN days_ago BETWEEN 1 AND 7 THEN spent END) AS most,
    sum(CASE WHEN days_ago BETWEEN 1 AND 7 THEN CAST(spent AS DOUBLE) END) / nullif(count(CASE WHEN days_ago BETWEEN 1 AND 7 THEN 1 END), 0) AS mean
  FROM days
  GROUP BY name
),
spent AS (
  SELECT name, sum(CASE WHEN time >= period_start THEN spent END) AS spent,
    sum(CASE WHEN time >= period_start THEN estimated END) AS estimated,
    sum(CASE WHEN time >= period_start THEN effective END) AS effective,
    sum(CASE WHEN time >= last_start AND time < period_start THEN spent END) AS last_period,
    count(DISTINCT CASE WHEN time >= period_start AND is_unpriced = 1 THEN time END) AS unpriced_hours,
    max(time) AS newest, string_agg(DISTINCT basis, ', ') AS basis, string_agg(DISTINCT method, ', ') AS method,
    min(price_as_of) AS price_as_of
  FROM charged
  GROUP BY name
),
held AS (
  SELECT o.*, s.spent, s.estimated, s.effective, s.last_period, s.unpriced_hours, s.newest, s.basis, s.method, s.price_as_of,
    p.burn, p.least, p.most, CAST(p.burn AS DOUBLE) / nullif(p.mean, 0.0) AS day_ratio, p.mean,
    CAST(CAST(o.period_end AS BIGINT) - CAST(o.as_of AS BIGINT) AS BIGINT) AS rest_us
  FROM in_force AS o
  LEFT JOIN spent AS s ON s.name = o.name
  LEFT JOIN pace AS p ON p.name = o.name
),
forecast AS (
  SELECT *, CAST(spent + money_scale(burn, rest_us, CAST(86400000000 AS BIGINT)) AS DECIMAL(38,12)) AS forecast,
    CAST(spent + money_scale(least, rest_us, CAST(86400000000 AS BIGINT)) AS DECIMAL(38,12)) AS forecast_low,
    CAST(spent + money_scale(most, rest_us, CAST(86400000000 AS BIGINT)) AS DECIMAL(38,12)) AS forecast_high,
    -- a date a century off says nothing, and microseconds have no number for one much farther
    CASE WHEN spent < amount AND burn > 0 AND CAST(amount - spent AS DOUBLE) / CAST(burn AS DOUBLE) < 36500.0 THEN
      CAST(as_of AS BIGINT) + try_cast(CAST(amount - spent AS DOUBLE) / CAST(burn AS DOUBLE) * 86400000000.0 AS BIGINT)
    END AS exhausted_us
  FROM held
)
SELECT period_start AS time, CAST(NULL AS VARCHAR) AS region, CAST(NULL AS VARCHAR) AS model, name, allocation_key, allocation_value, period,
  period_end, enforcement, amount AS budget_usd, spent AS spent_usd, estimated AS estimated_usd, effective AS effective_usd,
  CAST(spent AS DOUBLE) / CAST(amount AS DOUBLE) AS share, last_period AS last_period_usd, burn AS burn_usd_per_day,
  forecast AS forecast_usd, forecast_low AS forecast_low_usd, forecast_high AS forecast_high_usd, day_ratio,
  CASE WHEN period_end IS NULL OR exhausted_us < CAST(period_end AS BIGINT) THEN arrow_cast(exhausted_us, 'Timestamp(Microsecond, Some("UTC"))') END AS exhausted_at,
  CASE
    WHEN newest IS NULL THEN 'nothing known'
    WHEN spent >= amount THEN 'over'
    WHEN newest < as_of - INTERVAL '3 hours' THEN 'silent: no cost for three hours'
    WHEN forecast > amount THEN 'will be over'
    WHEN day_ratio >= 2.0 AND CAST(burn AS DOUBLE) - mean >= 10.0 THEN 'twice the week''s mean'
    WHEN CAST(spent AS DOUBLE) >= 0.8 * CAST(amount AS DOUBLE) THEN 'above 80 %'
    ELSE 'within'
  END AS status,
  coalesce(unpriced_hours, 0) AS unpriced_hours, basis, method, price_as_of, newest AS newest_cost, as_of,
  CASE WHEN allocation_key IN ('tenant', 'namespace') THEN 'hide' ELSE 'show' END AS idle_policy
FROM forecast
