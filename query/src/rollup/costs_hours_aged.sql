WITH bills AS (
  -- what a bill charges for a host's own time, as `node_cost` reads it
  SELECT host_id, CAST(time AS BIGINT) AS hour_us, region, host_type, coalesce("option", 'unknown option') AS "option",
    list_usd AS list_cost, effective_usd AS effective_cost, billed_usd AS billed_cost, paid_us IS NOT NULL AS is_paid,
    '; charges in ' || without_rate || ' have no rate' AS unrated,
    -- where a bill does not say it: without a commitment its effective cost is what is negotiated
    coalesce(contracted_usd, CASE WHEN "option" IN ('savings_plan', 'reserved') THEN list_usd ELSE effective_usd END) AS contracted_cost
  FROM charged_hours
  WHERE time >= arrow_cast($from, 'Timestamp(Microsecond, Some("UTC"))') AND time < arrow_cast($to, 'Timestamp(Microsecond, Some("UTC"))')
),
rated AS (
  -- what stands for a price where the book has none: as in `node_cost`
  SELECT *, CASE WHEN "option" = 'on_demand' THEN list_cost ELSE effective_cost END AS rate_usd, 'bill, ' || replace("option", '_', '-') AS basis
  FROM bills
),
held AS (
  -- hosts that only a bill spoke of are made anew from the bill as it is now
  SELECT *, CAST(time AS BIGINT) AS hour_us, basis = 'no price' OR starts_with(basis, 'bill, ') AS has_no_list,
    replace(method, '; bill by shares of the hour', '') AS split, split_part(basis, '; charges in ', 1) AS told
  FROM costs_1h
  WHERE time >= arrow_cast($from, 'Timestamp(Microsecond, Some("UTC"))') AND time < arrow_cast($to, 'Timestamp(Microsecond, Some("UTC"))')
    AND coalesce(method, '') <> 'the bill alone'
),
known AS (
  SELECT *, count(*) OVER one_hour AS parts, count(list_cost) OVER one_hour AS listed, count(device_us) OVER one_hour AS timed,
    sum(list_cost) OVER one_hour AS list_usd, sum(device_us) OVER one_hour AS all_us
  FROM held
  WINDOW one_hour AS (PARTITION BY hour_us, host_id)
),
weighed AS (
  -- a part's share of the host's hour: of its cost, in thousandths of a micro-dollar, else of its device time
  SELECT *, CASE
      WHEN parts = 1 THEN CAST(1 AS BIGINT)
      WHEN listed = parts AND list_usd > 0 THEN CAST(CAST(list_cost AS DOUBLE) * 1000000000.0 AS BIGINT)
      WHEN timed = parts AND all_us > 0 THEN device_us
      ELSE CAST(0 AS BIGINT)
    END AS weight
  FROM known
),
shares AS (
  SELECT hour_us, host_id, sum(weight) AS weights, max(listed) AS listed FROM weighed GROUP BY hour_us, host_id
),
split AS (
  SELECT w.*, coalesce(r.is_paid, FALSE) AS is_paid, coalesce(r.is_paid, FALSE) AND s.weights > 0 AS is_billed, r.basis AS bill_basis, r.unrated,
    CASE WHEN s.weights > 0 THEN money_split(r.rate_usd, w.weight) OVER one_hour END AS rate_share,
    CASE WHEN s.weights > 0 THEN money_split(r.effective_cost, w.weight) OVER one_hour END AS effective_share,
    CASE WHEN s.weights > 0 THEN money_split(r.billed_cost, w.weight) OVER one_hour END AS billed_share,
    CASE WHEN s.weights > 0 THEN money_split(r.list_cost, w.weight) OVER one_hour END AS public_share,
    CASE WHEN s.weights > 0 THEN money_split(r.contracted_cost, w.weight) OVER one_hour END AS contracted_share
  FROM weighed AS w
  LEFT JOIN shares AS s ON s.hour_us = w.hour_us AND s.host_id = w.host_id
  LEFT JOIN rated AS r ON r.hour_us = w.hour_us AND r.host_id = w.host_id
  WINDOW one_hour AS (
    PARTITION BY w.hour_us, w.host_id
    ORDER BY w.part, w.tenant, w.namespace, w.model, w.environment, w.cluster, w.pool, w.region, w.host_type, w.basis, w.method,
      w.confidence, w.boundary, w.energy_method, w.energy_confidence, w.allocation
  )
)
SELECT time, region, model, environment, cluster, pool, host_id, host_type, tenant, namespace, part, currency,
  CASE WHEN has_no_list THEN rate_share ELSE list_cost END AS list_cost,
  -- what a discount says holds until a bill says otherwise
  CASE WHEN is_billed THEN effective_share WHEN strpos(basis, '; effective') > 0 THEN effective_cost END AS effective_cost, billed_share AS billed_cost,
  energy_j, device_us, tokens,
  CASE
    WHEN has_no_list AND rate_share IS NULL THEN 'no price'
    ELSE CASE WHEN has_no_list THEN bill_basis WHEN is_billed THEN split_part(told, '; effective', 1) ELSE told END || coalesce(unrated, '')
  END AS basis,
  CASE WHEN is_billed THEN split || '; bill by shares of the hour' ELSE split END AS method,
  CASE WHEN NOT has_no_list THEN confidence WHEN rate_share IS NOT NULL THEN 'measured' END AS confidence,
  boundary, energy_method, energy_confidence, price_as_of, allocation,
  coalesce(public_share, public_cost) AS public_cost, coalesce(contracted_share, contracted_cost) AS contracted_cost
FROM split
-- minutes that only a bill spoke of are gone with it
WHERE is_paid OR coalesce(split, '') <> 'paid for and silent'
UNION ALL
-- a host that no row of the hour knows, or of which nothing says how its hour was shared; what has an estimate has no second one
SELECT arrow_cast(r.hour_us, 'Timestamp(Microsecond, Some("UTC"))'), r.region, CAST(NULL AS VARCHAR), CAST(NULL AS VARCHAR),
  CAST(NULL AS VARCHAR), CAST(NULL AS VARCHAR), r.host_id, r.host_type, CAST(NULL AS VARCHAR), CAST(NULL AS VARCHAR), 'unattributed', 'USD',
  CASE WHEN coalesce(s.listed, 0) = 0 THEN r.rate_usd END, r.effective_cost, r.billed_cost,
  CAST(NULL AS DOUBLE), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT),
  CASE WHEN r.rate_usd IS NULL OR coalesce(s.listed, 0) > 0 THEN 'no price' ELSE r.basis || coalesce(r.unrated, '') END, 'the bill alone',
  CASE WHEN r.rate_usd IS NOT NULL AND coalesce(s.listed, 0) = 0 THEN 'measured' END,
  CAST(NULL AS VARCHAR), CAST(NULL AS VARCHAR), CAST(NULL AS VARCHAR), CAST(NULL AS VARCHAR), CAST(NULL AS VARCHAR), r.list_cost AS public_cost,
  r.contracted_cost AS contracted_cost
FROM rated AS r
LEFT JOIN shares AS s ON s.hour_us = r.hour_us AND s.host_id = r.host_id
WHERE r.is_paid AND coalesce(s.weights, 0) = 0
