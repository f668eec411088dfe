WITH hours AS (
  -- counted in whole days back from now
  SELECT (CAST(arrow_cast(now(), 'Timestamp(Microsecond, Some("UTC"))') AS BIGINT) - CAST(time AS BIGINT)) / 86400000000 AS days_ago,
    region, model, tenant, basis, method, price_as_of, coalesce(effective_cost, list_cost) AS usd
  FROM costs_hours
  WHERE time >= now() - INTERVAL '22 days'
),
keyed AS (
  SELECT days_ago, basis, method, price_as_of, usd, unnest(make_array('fleet', 'region', 'model', 'tenant')) AS dimension,
    unnest(make_array('', region, model, tenant)) AS value
  FROM hours
),
days AS (
  SELECT dimension, value, days_ago, sum(usd) AS usd, string_agg(DISTINCT basis, ', ') AS basis,
    string_agg(DISTINCT method, ', ') AS method, min(price_as_of) AS price_as_of
  FROM keyed
  WHERE value IS NOT NULL
  GROUP BY dimension, value, days_ago
),
told AS (
  -- a day of which anything of the fleet is known and nothing of a tenant cost that tenant nothing
  SELECT *, count(CASE WHEN dimension = 'fleet' AND days_ago BETWEEN 1 AND 7 THEN 1 END) OVER () AS week_days,
    count(CASE WHEN dimension = 'fleet' AND days_ago IN (7, 14, 21) THEN 1 END) OVER () AS weekdays
  FROM days
),
sides AS (
  SELECT dimension, value, sum(CASE WHEN days_ago = 0 THEN usd END) AS day_usd,
    CASE WHEN max(week_days) > 0 THEN coalesce(sum(CASE WHEN days_ago BETWEEN 1 AND 7 THEN CAST(usd AS DOUBLE) END), 0.0) / CAST(max(week_days) AS DOUBLE) END AS week_usd,
    CASE WHEN max(weekdays) > 0 THEN coalesce(sum(CASE WHEN days_ago IN (7, 14, 21) THEN CAST(usd AS DOUBLE) END), 0.0) / CAST(max(weekdays) AS DOUBLE) END AS weekday_usd,
    string_agg(DISTINCT CASE WHEN days_ago = 0 THEN basis END, ', ') AS basis, string_agg(DISTINCT CASE WHEN days_ago = 0 THEN method END, ', ') AS method,
    min(price_as_of) AS price_as_of
  FROM told
  GROUP BY dimension, value
),
compared AS (
  SELECT *, greatest(week_usd, weekday_usd) AS before_usd, CAST(day_usd AS DOUBLE) - greatest(week_usd, weekday_usd) AS more_usd
  FROM sides
  WHERE day_usd IS NOT NULL
)
SELECT arrow_cast(now(), 'Timestamp(Microsecond, Some("UTC"))') - INTERVAL '1 day' AS time,
  CASE WHEN dimension = 'region' THEN value END AS region, CASE WHEN dimension = 'model' THEN value END AS model, dimension, value,
  day_usd, before_usd, more_usd, CAST(day_usd AS DOUBLE) / nullif(before_usd, 0.0) AS day_ratio,
  coalesce(CAST(day_usd AS DOUBLE) >= 2.0 * before_usd AND more_usd >= 10.0, false) AS is_anomaly, basis, method, price_as_of,
  CASE WHEN dimension = 'tenant' THEN 'hide' ELSE 'show' END AS idle_policy
FROM compared
