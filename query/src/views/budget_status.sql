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
    sum(billed_cost) AS billed,
    max(CASE WHEN list_cost IS NULL AND effective_cost IS NULL THEN 1 ELSE 0 END) AS is_unpriced, min(price_as_of) AS price_as_of,
    -- what a list or a bill says of hosts that nobody hears of is no sign of life
    NOT (starts_with(method, 'listed and silent') OR starts_with(method, 'paid for and silent') OR starts_with(method, 'the bill alone')) AS is_heard
  FROM costs_hours
  WHERE time >= now() - INTERVAL '92 days'
  GROUP BY time, region, environment, cluster, pool, model, host_type, tenant, namespace, allocation, basis, method
),
keyed AS (
  SELECT time, basis, method, estimated, effective, billed, spent, is_unpriced, is_heard, price_as_of,
    unnest(array_concat(
      make_array('tenant', 'namespace', 'environment', 'cluster', 'pool', 'region', 'model', 'host_type'), allocation_keys(allocation, '')
    )) AS key,
    unnest(array_concat(
      make_array(tenant, namespace, environment, cluster, pool, region, model, host_type), allocation_values(allocation, '')
    )) AS value
  FROM hours
),
charged AS (
  SELECT o.name, o.as_of, o.period_start, o.last_start, k.time, k.basis, k.method, k.estimated, k.effective, k.billed, k.spent, k.is_unpriced, k.is_heard, k.price_as_of,
    -- how many days ago, counted in whole days back from now
    (CAST(o.as_of AS BIGINT) - CAST(k.time AS BIGINT)) / 86400000000 AS days_ago
  FROM in_force AS o
  JOIN keyed AS k ON k.key = o.allocation_key AND k.value = o.allocation_value
),
days AS (
  SELECT name, days_ago, sum(spent) AS spent, max(days_ago) OVER (PARTITION BY name) AS first_day
  FROM (SELECT name, days_ago, spent FROM charged WHERE days_ago < 28)
  GROUP BY name, days_ago
),
heard AS (
  SELECT DISTINCT (CAST(arrow_cast(now(), 'Timestamp(Microsecond, Some("UTC"))') AS BIGINT) - CAST(time AS BIGINT)) / 86400000000 AS days_ago
  FROM costs_1h
  WHERE time >= now() - INTERVAL '28 days'
    AND NOT (starts_with(method, 'listed and silent') OR starts_with(method, 'paid for and silent') OR starts_with(method, 'the bill alone'))
),
told AS (
  -- a day on which telemetry was heard and nothing was spent costs 0, from the first on that cost something
  SELECT name, days_ago, sum(spent) AS spent
  FROM (
    SELECT name, days_ago, spent FROM days
    UNION ALL
    SELECT f.name, h.days_ago, CAST(0 AS DECIMAL(38,12)) FROM (SELECT DISTINCT name, first_day FROM days) AS f JOIN heard AS h ON h.days_ago < f.first_day
  )
  GROUP BY name, days_ago
),
weekdays AS (
  -- days of a week are told apart: those seven, fourteen and twenty-one days before are of the same
  SELECT *, CAST(spent AS DOUBLE) AS usd, avg(CAST(spent AS DOUBLE)) OVER one_weekday AS mean, count(*) OVER one_weekday AS alike
  FROM told
  WINDOW one_weekday AS (PARTITION BY name, days_ago % 7)
),
pace AS (
  SELECT name, sum(CASE WHEN days_ago = 0 THEN spent END) AS burn, avg(usd) AS mean_usd,
    -- how far a day lies from the mean of its weekday, else, before there are two of each, from that of all
    CASE WHEN count(*) < 2 THEN NULL WHEN min(alike) > 1 THEN sqrt(avg((usd - mean) * (usd - mean))) ELSE stddev_pop(usd) END AS spread,
    -- the days before, or those of the same weekday, whichever cost more
    greatest(avg(CASE WHEN days_ago BETWEEN 1 AND 7 THEN usd END), avg(CASE WHEN days_ago IN (7, 14, 21) THEN usd END)) AS before
  FROM weekdays
  GROUP BY name
),
ahead AS (
  -- of the days until the period's end how many are of each weekday: the next day is of the weekday of six days ago, the last of them in part
  SELECT o.name, w.weekday, greatest(CAST(CAST(o.period_end AS BIGINT) - CAST(o.as_of AS BIGINT) AS DOUBLE) / 86400000000.0 - (6.0 - CAST(w.weekday AS DOUBLE)), 0.0) AS days
  FROM in_force AS o CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6)) AS w(weekday)
),
expected AS (
  SELECT a.name, sum(coalesce(m.mean, p.mean_usd) * (floor(a.days / 7.0) + least(a.days - 7.0 * floor(a.days / 7.0), 1.0))) AS rest,
    sum(coalesce(m.mean, p.mean_usd)) / 7.0 AS per_day
  FROM ahead AS a
  JOIN pace AS p ON p.name = a.name
  LEFT JOIN (SELECT DISTINCT name, days_ago % 7 AS weekday, mean FROM weekdays) AS m ON m.name = a.name AND m.weekday = a.weekday
  GROUP BY a.name
),
spent AS (
  SELECT name, sum(CASE WHEN time >= period_start THEN spent END) AS spent,
    sum(CASE WHEN time >= period_start THEN estimated END) AS estimated,
    sum(CASE WHEN time >= period_start THEN effective END) AS effective,
    sum(CASE WHEN time >= last_start AND time < period_start THEN spent END) AS last_period,
    count(DISTINCT CASE WHEN time >= period_start AND is_unpriced = 1 THEN time END) AS unpriced_hours,
    sum(CASE WHEN time >= period_start THEN billed END) AS billed,
    max(CASE WHEN is_heard THEN time END) AS newest, string_agg(DISTINCT basis, ', ') AS basis, string_agg(DISTINCT method, ', ') AS method,
    min(price_as_of) AS price_as_of
  FROM charged
  GROUP BY name
),
held AS (
  SELECT o.*, s.spent, s.estimated, s.effective, s.billed, s.last_period, s.unpriced_hours, s.newest, s.basis, s.method, s.price_as_of,
    p.burn, CAST(p.burn AS DOUBLE) / nullif(p.before, 0.0) AS day_ratio, p.before, e.per_day,
    CASE WHEN o.period_end IS NOT NULL THEN CAST(s.spent AS DOUBLE) + e.rest END AS usd,
    -- two standard deviations of as many days as are left
    2.0 * p.spread * sqrt(CAST(CAST(o.period_end AS BIGINT) - CAST(o.as_of AS BIGINT) AS DOUBLE) / 86400000000.0) AS width
  FROM in_force AS o
  LEFT JOIN spent AS s ON s.name = o.name
  LEFT JOIN pace AS p ON p.name = o.name
  LEFT JOIN expected AS e ON e.name = o.name
),
forecast AS (
  SELECT *, try_cast(usd AS DECIMAL(38,12)) AS forecast,
    CASE WHEN usd - width IS NOT NULL THEN try_cast(greatest(usd - width, CAST(spent AS DOUBLE)) AS DECIMAL(38,12)) END AS forecast_low, try_cast(usd + width AS DECIMAL(38,12)) AS forecast_high,
    -- a date a century off says nothing, and microseconds have no number for one much farther
    CASE WHEN spent < amount AND per_day > 0.0 AND CAST(amount - spent AS DOUBLE) / per_day < 36500.0 THEN
      CAST(as_of AS BIGINT) + try_cast(CAST(amount - spent AS DOUBLE) / per_day * 86400000000.0 AS BIGINT)
    END AS exhausted_us
  FROM held
)
SELECT period_start AS time, CAST(NULL AS VARCHAR) AS region, CAST(NULL AS VARCHAR) AS model, name, allocation_key, allocation_value, period,
  period_end, enforcement, amount AS budget_usd, spent AS spent_usd, estimated AS estimated_usd, effective AS effective_usd,
  CAST(spent AS DOUBLE) / CAST(amount AS DOUBLE) AS share, last_period AS last_period_usd, burn AS burn_usd_per_day,
  forecast AS forecast_usd, forecast_low AS forecast_low_usd, forecast_high AS forecast_high_usd, day_ratio,
  CASE WHEN period_end IS NULL OR exhausted_us < CAST(period_end AS BIGINT) THEN arrow_cast(exhausted_us, 'Timestamp(Microsecond, Some("UTC"))') END AS exhausted_at,
  CASE
    WHEN newest IS NULL AND spent IS NULL THEN 'nothing known'
    WHEN spent >= amount THEN 'over'
    WHEN newest IS NULL OR newest < as_of - INTERVAL '3 hours' THEN 'silent: nothing heard for three hours'
    WHEN forecast > amount THEN 'will be over'
    WHEN day_ratio >= 2.0 AND CAST(burn AS DOUBLE) - before >= 10.0 THEN 'twice the week''s mean'
    WHEN CAST(spent AS DOUBLE) >= 0.8 * CAST(amount AS DOUBLE) THEN 'above 80 %'
    ELSE 'within'
  END AS status,
  coalesce(unpriced_hours, 0) AS unpriced_hours, basis, method, price_as_of, newest AS newest_cost, as_of,
  CASE WHEN allocation_key IN ('tenant', 'namespace') THEN 'hide' ELSE 'show' END AS idle_policy,
  billed AS billed_usd
FROM forecast
