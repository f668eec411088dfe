WITH charges AS (
  SELECT *, is_time AND is_rated AS is_paid FROM charges_in_usd
),
periods AS (
  SELECT time, charge_to, host_id, max(period_us) AS period_us,
    coalesce(max(CASE WHEN is_time THEN region END), max(region)) AS region, coalesce(max(CASE WHEN is_time THEN zone END), max(zone)) AS zone,
    coalesce(max(CASE WHEN is_time THEN host_type END), max(host_type)) AS host_type,
    first_value("option" ORDER BY NOT is_rated, NOT is_time, quantity DESC NULLS LAST, "option") AS "option",
    count(CASE WHEN is_rated THEN 1 END) AS charges, count(CASE WHEN is_paid THEN 1 END) AS paid,
    -- of corrections and refunds what remains
    round(sum(CASE WHEN is_paid THEN quantity END) * 3600000000.0) AS quantity_us,
    count(CASE WHEN is_paid THEN list_usd END) AS listed, sum(CASE WHEN is_paid THEN list_usd END) AS list_usd,
    count(CASE WHEN is_paid THEN effective_usd END) AS amortised, sum(CASE WHEN is_paid THEN effective_usd END) AS effective_usd,
    count(CASE WHEN is_paid THEN billed_usd END) AS invoiced, sum(CASE WHEN is_paid THEN billed_usd END) AS billed_usd,
    count(CASE WHEN is_paid THEN contracted_usd END) AS contracted, sum(CASE WHEN is_paid THEN contracted_usd END) AS contracted_usd,
    sum(CASE WHEN NOT is_time THEN effective_usd END) AS other_usd,
    min(CASE WHEN is_time AND NOT is_rated THEN currency END) AS without_rate, max(CASE WHEN is_time AND NOT is_rated THEN currency END) AS last_without_rate,
    min(CASE WHEN NOT is_time AND NOT is_rated THEN currency END) AS other_without_rate,
    max(CASE WHEN NOT is_time AND NOT is_rated THEN currency END) AS last_other_without_rate,
    string_agg(DISTINCT CASE WHEN is_rated THEN method END, ', ') AS method, max(bill) AS bill, max(imported_at) AS imported_at
  FROM charges
  GROUP BY time, charge_to, host_id
)
SELECT time, region, CAST(NULL AS VARCHAR) AS model, zone, host_id, host_type, "option", charge_to,
  -- a sum of which a part is unknown is unknown
  CASE WHEN listed = paid THEN list_usd END AS list_usd, CASE WHEN amortised = paid THEN effective_usd END AS effective_usd,
  CASE WHEN invoiced = paid THEN billed_usd END AS billed_usd, other_usd,
  -- what is charged beside a host's time by the hour, such as its image, makes no hour longer
  CASE WHEN paid > 0 THEN coalesce(CAST(greatest(least(quantity_us, CAST(period_us AS DOUBLE)), 0.0) AS BIGINT), period_us) END AS paid_us,
  charges, without_rate || CASE WHEN last_without_rate <> without_rate THEN ', ' || last_without_rate ELSE '' END AS without_rate,
  other_without_rate || CASE WHEN last_other_without_rate <> other_without_rate THEN ', ' || last_other_without_rate ELSE '' END AS other_without_rate,
  'bill' AS basis, method, CAST(imported_at AS VARCHAR) AS price_as_of, bill, imported_at,
  CASE WHEN contracted = paid THEN contracted_usd END AS contracted_usd
FROM periods
