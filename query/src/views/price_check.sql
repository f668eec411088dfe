WITH used AS (
  SELECT date_trunc('day', time) AS time, region, host_type, "option", usd_per_hour, price_source, price_as_of, price_confidence,
    max(price_effective_from) AS effective_from, string_agg(DISTINCT basis, ', ') AS basis, sum(charged_us) AS charged_us, count(DISTINCT host_id) AS hosts
  FROM node_cost
  WHERE usd_per_hour IS NOT NULL AND price_source <> 'bill'
  GROUP BY date_trunc('day', time), region, host_type, "option", usd_per_hour, price_source, price_as_of, price_confidence
),
paid AS (
  -- under an option of its own the book holds what is paid for it, on demand what the list says
  SELECT time, region, host_type, "option", sum(cost) AS cost, sum(paid_us) AS paid_us
  FROM (
    SELECT date_trunc('day', time) AS time, region, host_type, "option", paid_us, CASE WHEN "option" = 'on_demand' THEN list_usd ELSE effective_usd END AS cost
    FROM charged_hours
  )
  WHERE cost IS NOT NULL AND paid_us > 0
  GROUP BY time, region, host_type, "option"
),
compared AS (
  SELECT u.*, money_scale(p.cost, CAST(3600000000 AS BIGINT), p.paid_us) AS billed_usd_per_hour,
    CAST(CAST(u.time AS BIGINT) AS DOUBLE) / 86400000000.0 - coalesce(
      CAST(CAST(try_cast(substr(u.price_as_of, 1, 10) AS DATE) AS INT) AS DOUBLE),
      CAST(CAST(u.effective_from AS BIGINT) AS DOUBLE) / 86400000000.0
    ) AS age_days
  FROM used AS u
  LEFT JOIN paid AS p ON p.time = u.time AND p.region = u.region AND p.host_type = u.host_type AND p."option" = u."option"
)
SELECT time, region, CAST(NULL AS VARCHAR) AS model, host_type, "option", usd_per_hour, billed_usd_per_hour,
  CAST(billed_usd_per_hour AS DOUBLE) / nullif(CAST(usd_per_hour AS DOUBLE), 0.0) - 1.0 AS difference,
  age_days,
  CASE
    WHEN abs(CAST(billed_usd_per_hour AS DOUBLE) / nullif(CAST(usd_per_hour AS DOUBLE), 0.0) - 1.0) > 0.02 THEN 'contradicted by the bill'
    WHEN age_days > 180.0 THEN 'old'
  END AS warning,
  hosts, charged_us, basis, 'cost by the bill ÷ hours that it charges' AS method, price_source, price_as_of, price_confidence
FROM compared
