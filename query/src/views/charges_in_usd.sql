WITH charges AS (
  SELECT b.*, CAST(b.charge_to AS BIGINT) - CAST(b.time AS BIGINT) AS period_us,
    -- another currency by the rate that held when the charge began; without one it is in no sum
    CASE WHEN b.currency = 'USD' THEN CAST(1 AS DECIMAL(38,12)) ELSE r.usd_per_unit END AS usd_per_unit,
    CASE WHEN b.currency = 'USD' THEN 'in dollars' ELSE b.currency || ' at ' || CAST(CAST(r.usd_per_unit AS DOUBLE) AS VARCHAR) || ' USD by ' || r.source END AS method
  FROM billing AS b
  LEFT JOIN exchange_rates AS r ON r.currency = b.currency AND r.effective_from <= b.time AND (r.effective_to IS NULL OR r.effective_to > b.time)
  -- nothing stands for a host longer than a month
  WHERE b.host_id IS NOT NULL AND b.charge_to > b.time AND b.charge_to <= b.time + INTERVAL '32 days'
)
SELECT time, region, CAST(NULL AS VARCHAR) AS model, zone, host_id, host_type, "option", charge_to, period_us, quantity, currency,
  coalesce(charge_kind = 'host_time', FALSE) AS is_time, usd_per_unit IS NOT NULL AS is_rated,
  in_usd(list_cost, usd_per_unit) AS list_usd, in_usd(effective_cost, usd_per_unit) AS effective_usd, in_usd(billed_cost, usd_per_unit) AS billed_usd,
  'bill' AS basis, method, CAST(imported_at AS VARCHAR) AS price_as_of, bill, imported_at,
  in_usd(contracted_cost, usd_per_unit) AS contracted_usd
FROM charges
