WITH charges AS (
  SELECT b.time, b.charge_to, b.region, b.zone, b.host_id, b.host_type, b."option", b.quantity, b.currency, b.bill, b.imported_at,
    b.list_cost, b.effective_cost, b.billed_cost, coalesce(b.charge_kind = 'host_time', FALSE) AS is_time,
    -- another currency by the rate that held when the charge began; without one it is in no sum
    CASE WHEN b.currency = 'USD' THEN CAST(1 AS DECIMAL(38,12)) ELSE r.usd_per_unit END AS usd_per_unit,
    CASE WHEN b.currency = 'USD' THEN 'in dollars' ELSE b.currency || ' at ' || CAST(CAST(r.usd_per_unit AS DOUBLE) AS VARCHAR) || ' USD by ' || r.source END AS said
  FROM billing AS b
  LEFT JOIN exchange_rates AS r ON r.currency = b.currency AND r.effective_from <= b.time AND (r.effective_to IS NULL OR r.effective_to > b.time)
  -- nothing stands for a host longer than a month
  WHERE b.host_id IS NOT NULL AND b.charge_to > b.time AND b.charge_to <= b.time + INTERVAL '32 days'
),
converted AS (
  SELECT *, usd_per_unit IS NOT NULL AS is_rated, is_time AND usd_per_unit IS NOT NULL AS is_paid,
    CAST(charge_to AS BIGINT) - CAST(time AS BIGINT) AS period_us,
    in_usd(list_cost, usd_per_unit) AS list_in_usd, in_usd(effective_cost, usd_per_unit) AS effective_in_usd,
    in_usd(billed_cost, usd_per_unit) AS billed_in_usd
  FROM charges
),
periods AS (
  SELECT time, charge_to, host_id, max(period_us) AS period_us,
    coalesce(max(CASE WHEN is_time THEN region END), max(region)) AS region, coalesce(max(CASE WHEN is_time THEN zone END), max(zone)) AS zone,
    coalesce(max(CASE WHEN is_time THEN host_type END), max(host_type)) AS host_type,
    first_value("option" ORDER BY NOT is_rated, NOT is_time, quantity DESC NULLS LAST, "option") AS "option",
    count(CASE WHEN is_rated THEN 1 END) AS charges, count(CASE WHEN is_paid THEN 1 END) AS paid,
    -- of corrections and refunds what remains
    round(sum(CASE WHEN is_paid THEN quantity END) * 3600000000.0) AS quantity_us,
    count(CASE WHEN is_paid THEN list_in_usd END) AS listed, sum(CASE WHEN is_paid THEN list_in_usd END) AS list_usd,
    count(CASE WHEN is_paid THEN effective_in_usd END) AS amortised, sum(CASE WHEN is_paid THEN effective_in_usd END) AS effective_usd,
    count(CASE WHEN is_paid THEN billed_in_usd END) AS invoiced, sum(CASE WHEN is_paid THEN billed_in_usd END) AS billed_usd,
    sum(CASE WHEN NOT is_time THEN effective_in_usd END) AS other_usd,
    max(CASE WHEN is_time AND NOT is_rated THEN currency END) AS without_rate,
    string_agg(DISTINCT CASE WHEN is_rated THEN said END, ', ') AS method, max(bill) AS bill, max(imported_at) AS imported_at
  FROM converted
  GROUP BY time, charge_to, host_id
)
SELECT time, region, CAST(NULL AS VARCHAR) AS model, zone, host_id, host_type, "option", charge_to,
  -- a sum of which a part is unknown is unknown
  CASE WHEN listed = paid THEN list_usd END AS list_usd, CASE WHEN amortised = paid THEN effective_usd END AS effective_usd,
  CASE WHEN invoiced = paid THEN billed_usd END AS billed_usd, other_usd,
  -- what is charged beside a host's time by the hour, such as its image, makes no hour longer
  CASE WHEN paid > 0 THEN coalesce(CAST(greatest(least(quantity_us, CAST(period_us AS DOUBLE)), 0.0) AS BIGINT), period_us) END AS paid_us,
  charges, without_rate, 'bill' AS basis, method, CAST(imported_at AS VARCHAR) AS price_as_of, bill, imported_at
FROM periods
