WITH charges AS (
  SELECT *, CAST(time AS BIGINT) AS from_us, CAST(charge_to AS BIGINT) AS to_us,
    -- what was seen of a longer one lies beyond the stretch that is looked at
    CAST(charge_to AS BIGINT) - CAST(time AS BIGINT) > 86400000000 AS is_long
  FROM (
    SELECT time, charge_to, region, host_id, host_type, "option", list_usd, effective_usd, billed_usd, other_usd, paid_us, bill, imported_at
    FROM host_charges
    WHERE charges > 0
  )
),
periods AS (
  SELECT host_id, from_us, to_us, unnest(range(from_us / 3600000000, (to_us + 3599999999) / 3600000000)) AS hour
  FROM charges
  WHERE paid_us IS NOT NULL
),
minutes AS (
  SELECT CAST(time AS BIGINT) AS at_us, host_id, region, host_type, "option", charged_us, basis, price_as_of,
    -- a price that is the bill's own says nothing about the bill
    CASE WHEN price_source <> 'bill' THEN cost_usd END AS cost_usd
  FROM node_cost
  WHERE NOT is_silent
),
placed AS (
  SELECT m.*, p.from_us, p.to_us
  FROM minutes AS m
  LEFT JOIN periods AS p ON p.host_id = m.host_id AND p.hour = m.at_us / 3600000000 AND p.from_us <= m.at_us AND p.to_us > m.at_us
),
seen AS (
  SELECT host_id, from_us, to_us, sum(charged_us) AS seen_us,
    -- one minute without a price, and what was seen has no price
    CASE WHEN count(cost_usd) = count(*) THEN sum(cost_usd) END AS estimated_usd,
    string_agg(DISTINCT basis, ', ') AS basis, min(price_as_of) AS price_as_of
  FROM placed
  WHERE from_us IS NOT NULL
  GROUP BY host_id, from_us, to_us
),
sided AS (
  SELECT c.*, CASE WHEN NOT c.is_long THEN coalesce(s.seen_us, CAST(0 AS BIGINT)) END AS seen_us,
    CASE WHEN c.is_long THEN NULL WHEN s.seen_us IS NULL AND c.paid_us IS NOT NULL THEN CAST(0 AS DECIMAL(38,12)) ELSE s.estimated_usd END AS estimated_usd,
    s.basis, s.price_as_of,
    -- the book's price under that option is held against what the bill says of it
    CASE WHEN coalesce(c."option", 'on_demand') = 'on_demand' THEN c.list_usd ELSE c.effective_usd END AS comparable_usd
  FROM charges AS c
  LEFT JOIN seen AS s ON s.host_id = c.host_id AND s.from_us = c.from_us AND s.to_us = c.to_us AND c.paid_us IS NOT NULL AND NOT c.is_long
),
parted AS (
  SELECT *, CAST(comparable_usd - effective_usd AS DECIMAL(38,12)) AS discount_usd,
    CASE
      WHEN is_long THEN NULL
      WHEN paid_us = 0 THEN CAST(0 AS DECIMAL(38,12))
      ELSE money_scale(comparable_usd, greatest(paid_us - seen_us, CAST(0 AS BIGINT)), paid_us)
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
    WHEN paid_us IS NULL THEN 'charged beside its time only'
    WHEN is_long THEN 'charged for more than a day: not held against telemetry'
    WHEN paid_us = 0 AND seen_us = 0 THEN 'charged and taken back'
    WHEN seen_us = 0 THEN 'silent: paid for, nothing heard of it'
    WHEN estimated_usd IS NULL THEN 'no price in the book'
    WHEN abs(CAST(unexplained_usd AS DOUBLE)) <= 0.01 * abs(CAST(comparable_usd AS DOUBLE)) THEN 'explained'
    WHEN seen_us > paid_us + 60000000 THEN 'seen for longer than it was charged'
    ELSE 'the price differs'
  END AS finding,
  basis, 'price × time seen' AS method, price_as_of, bill, imported_at
FROM explained
UNION ALL
SELECT date_trunc('hour', arrow_cast(min(at_us), 'Timestamp(Microsecond, Some("UTC"))')), max(region), CAST(NULL AS VARCHAR), host_id,
  max(host_type), CASE WHEN count(DISTINCT "option") = 1 THEN max("option") END, sum(charged_us), CAST(NULL AS BIGINT),
  CASE WHEN count(cost_usd) = count(*) THEN sum(cost_usd) END, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  'not in any bill', string_agg(DISTINCT basis, ', '), 'price × time seen', min(price_as_of), CAST(NULL AS VARCHAR), NULL
FROM placed
WHERE from_us IS NULL
GROUP BY host_id, at_us / 3600000000
