WITH used AS (
  SELECT date_trunc('day', time) AS time, region, host_type, "option", usd_per_hour, price_source, price_as_of, price_confidence,
    max(price_effective_from) AS effective_from, string_agg(DISTINCT basis, ', ') AS basis, sum(charged_us) AS charged_us, count(DISTINCT host_id) AS hosts
  FROM node_cost
  WHERE usd_per_hour IS NOT NULL AND price_source <> 'bill'
  GROUP BY date_trunc('day', time), region, host_type, "option", usd_per_hour, price_source, price_as_of, price_confidence
),
charged AS (
  SELECT time, charge_to, host_id, max(period_us) AS period_us, max(region) AS region, max(host_type) AS host_type, "option",
    sum(quantity) * 3600000000.0 AS quantity_us, count(quantity) = count(*) AS is_counted,
    CASE WHEN count(list_usd) = count(*) THEN sum(list_usd) END AS list_usd,
    CASE WHEN count(effective_usd) = count(*) THEN sum(effective_usd) END AS effective_usd
  FROM charges_in_usd
  WHERE is_time AND is_rated
  GROUP BY time, charge_to, host_id, "option"
),
fitted AS (
  -- the options of a period are told apart where their hours fit into it; else some are of what is charged beside the host, and all are taken
  -- for the option with the most
  SELECT *,
    CASE
      WHEN bool_and(is_counted AND "option" IS NOT NULL AND quantity_us >= 0.0) OVER one_period AND sum(quantity_us) OVER one_period <= CAST(period_us AS DOUBLE) + 1.0
        THEN "option"
      ELSE first_value("option") OVER (PARTITION BY time, charge_to, host_id ORDER BY "option" IS NULL, quantity_us DESC NULLS LAST, "option")
    END AS told
  FROM charged
  WINDOW one_period AS (PARTITION BY time, charge_to, host_id)
),
periods AS (
  -- under an option of its own the book holds what is paid for it, on demand what the list says
  SELECT CAST(time AS BIGINT) AS from_us, CAST(charge_to AS BIGINT) AS to_us, period_us, region, host_type, "option", cost,
    greatest(coalesce(least(quantity_us, CAST(period_us AS DOUBLE)), CAST(period_us AS DOUBLE)), 0.0) AS paid_us,
    unnest(range(CAST(time AS BIGINT) / 86400000000, (CAST(charge_to AS BIGINT) + 86399999999) / 86400000000)) AS day
  FROM (
    SELECT time, charge_to, host_id, max(period_us) AS period_us, max(region) AS region, max(host_type) AS host_type, told AS "option",
      sum(quantity_us) AS quantity_us,
      CASE
        WHEN told = 'on_demand' THEN CASE WHEN count(list_usd) = count(*) THEN sum(list_usd) END
        WHEN count(effective_usd) = count(*) THEN sum(effective_usd)
      END AS cost
    FROM fitted
    GROUP BY time, charge_to, host_id, told
  )
  WHERE cost IS NOT NULL
),
paid AS (
  SELECT arrow_cast(day * 86400000000, 'Timestamp(Microsecond, Some("UTC"))') AS time, region, host_type, "option",
    sum(money_scale(cost, least(to_us, (day + 1) * 86400000000) - greatest(from_us, day * 86400000000), period_us)) AS cost,
    CAST(round(sum(paid_us * CAST(least(to_us, (day + 1) * 86400000000) - greatest(from_us, day * 86400000000) AS DOUBLE) / CAST(period_us AS DOUBLE))) AS BIGINT) AS paid_us
  FROM periods
  WHERE paid_us > 0.0
  GROUP BY day, region, host_type, "option"
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
