WITH charges AS (
  SELECT *, CAST(time AS BIGINT) AS from_us, CAST(charge_to AS BIGINT) AS to_us,
    -- what was seen of a longer one lies beyond the stretch that is looked at
    CAST(charge_to AS BIGINT) - CAST(time AS BIGINT) > 86400000000 AS is_long
  FROM (
    SELECT time, charge_to, region, host_id, host_type, "option", list_usd, effective_usd, billed_usd, other_usd, paid_us, bill, imported_at,
      without_rate, other_without_rate, paid_us IS NOT NULL OR without_rate IS NOT NULL AS is_time
    FROM host_charges
  )
),
periods AS (
  SELECT host_id, from_us, to_us, is_long,
    -- by the hour, to tell the host's own charge from one for less beside it
    CASE
      WHEN paid_us > 0 THEN coalesce(CAST(list_usd AS DOUBLE), CAST(effective_usd AS DOUBLE), 0.0) / CAST(paid_us AS DOUBLE)
      WHEN paid_us = 0 THEN -1.0
      ELSE -2.0
    END AS rate,
    unnest(range(from_us / 3600000000, (to_us + 3599999999) / 3600000000)) AS hour
  FROM charges
  WHERE is_time
),
minutes AS (
  SELECT CAST(time AS BIGINT) AS at_us, host_id, region, host_type, "option", charged_us, basis, price_as_of,
    -- a price that is the bill's own says nothing about the bill
    CASE WHEN price_source <> 'bill' THEN cost_usd END AS cost_usd
  FROM node_cost
  WHERE NOT is_silent
),
placed AS (
  -- of charges over each other the dearest has the minute: what was seen is held against one of them, and all sums are those of the minutes
  SELECT m.*, p.from_us, p.to_us, p.is_long,
    row_number() OVER (PARTITION BY m.host_id, m.at_us ORDER BY p.is_long, p.rate DESC, p.from_us DESC, p.to_us) AS place
  FROM minutes AS m
  LEFT JOIN periods AS p ON p.host_id = m.host_id AND p.hour = m.at_us / 3600000000 AND p.from_us <= m.at_us AND p.to_us > m.at_us
),
seen AS (
  SELECT host_id, from_us, to_us, sum(charged_us) AS met_us, sum(CASE WHEN place = 1 THEN charged_us ELSE 0 END) AS seen_us,
    -- one minute without a price, and what was seen has no price
    CASE WHEN count(CASE WHEN place = 1 THEN cost_usd END) = count(CASE WHEN place = 1 THEN 1 END)
      THEN coalesce(sum(CASE WHEN place = 1 THEN cost_usd END), CAST(0 AS DECIMAL(38,12))) END AS estimated_usd,
    string_agg(DISTINCT CASE WHEN place = 1 THEN basis END, ', ') AS basis, min(CASE WHEN place = 1 THEN price_as_of END) AS price_as_of
  FROM placed
  WHERE NOT is_long
  GROUP BY host_id, from_us, to_us
),
sided AS (
  SELECT c.*, CASE WHEN NOT c.is_long THEN coalesce(s.seen_us, CAST(0 AS BIGINT)) END AS seen_us, coalesce(s.met_us, CAST(0 AS BIGINT)) AS met_us,
    CASE WHEN c.is_long THEN NULL WHEN s.seen_us IS NULL AND c.paid_us IS NOT NULL THEN CAST(0 AS DECIMAL(38,12)) ELSE s.estimated_usd END AS estimated_usd,
    s.basis, s.price_as_of,
    -- the book's price under that option is held against what the bill says of it
    CASE WHEN coalesce(c."option", 'on_demand') = 'on_demand' THEN c.list_usd ELSE c.effective_usd END AS comparable_usd
  FROM charges AS c
  LEFT JOIN seen AS s ON s.host_id = c.host_id AND s.from_us = c.from_us AND s.to_us = c.to_us AND c.is_time AND NOT c.is_long
),
parted AS (
  SELECT *, CAST(comparable_usd - effective_usd AS DECIMAL(38,12)) AS discount_usd,
    CASE
      WHEN is_long THEN NULL
      WHEN paid_us = 0 THEN CAST(0 AS DECIMAL(38,12))
      ELSE money_scale(comparable_usd, greatest(paid_us - met_us, CAST(0 AS BIGINT)), paid_us)
    END AS unseen_usd
  FROM sided
),
explained AS (
  SELECT *, CAST(comparable_usd - estimated_usd - unseen_usd AS DECIMAL(38,12)) AS unexplained_usd
  FROM parted
)
SELECT time, region, CAST(NULL AS VARCHAR) AS model, host_id, host_type, "option", seen_us, paid_us,
  estimated_usd, unseen_usd, unexplained_usd, discount_usd, list_usd, effective_usd,
  CAST(billed_usd - effective_usd AS DECIMAL(38,12)) AS timing_usd, billed_usd, other_usd,
  CASE
    WHEN paid_us IS NULL AND without_rate IS NOT NULL THEN 'its bill is in ' || without_rate || ', and no row of `exchange_rates` is in force'
    WHEN paid_us IS NULL THEN 'charged beside its time only'
    WHEN is_long THEN 'charged for more than a day: not held against telemetry'
    WHEN paid_us = 0 AND met_us = 0 THEN 'charged and taken back'
    WHEN met_us = 0 THEN 'silent: paid for, nothing heard of it'
    WHEN estimated_usd IS NULL THEN 'no price in the book'
    WHEN abs(CAST(unexplained_usd AS DOUBLE)) <= 0.01 * abs(CAST(comparable_usd AS DOUBLE)) THEN 'explained'
    WHEN seen_us < met_us THEN 'over a dearer charge: held against that one'
    WHEN seen_us > paid_us + 60000000 THEN 'seen for longer than it was charged'
    ELSE 'the price differs'
  END AS finding,
  basis, 'price × time seen' AS method, price_as_of, bill, imported_at,
  coalesce(without_rate || CASE WHEN other_without_rate <> without_rate THEN ', ' || other_without_rate ELSE '' END, other_without_rate) AS without_rate
FROM explained
UNION ALL
-- what was seen and is in no row above
SELECT date_trunc('hour', arrow_cast(min(at_us), 'Timestamp(Microsecond, Some("UTC"))')), max(region), CAST(NULL AS VARCHAR), host_id,
  max(host_type), CASE WHEN count(DISTINCT "option") = 1 THEN max("option") END, sum(charged_us), CAST(NULL AS BIGINT),
  CASE WHEN count(cost_usd) = count(*) THEN sum(cost_usd) END, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  CASE WHEN is_long THEN 'seen under a charge for more than a day' ELSE 'not in any bill' END, string_agg(DISTINCT basis, ', '), 'price × time seen',
  min(price_as_of), CAST(NULL AS VARCHAR), NULL, CAST(NULL AS VARCHAR)
FROM placed
WHERE place = 1 AND (from_us IS NULL OR is_long)
GROUP BY host_id, at_us / 3600000000, is_long
