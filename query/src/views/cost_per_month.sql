SELECT date_trunc('month', time) AS time, region, model,
  CASE date_trunc('month', time)
    WHEN date_trunc('month', arrow_cast(now(), 'Timestamp(Microsecond, Some("UTC"))')) THEN 'month to date'
    WHEN date_trunc('month', date_trunc('month', arrow_cast(now(), 'Timestamp(Microsecond, Some("UTC"))')) - INTERVAL '1 day') THEN 'last month'
  END AS period,
  max(time) + INTERVAL '1 hour' AS known_until,
  sum(list_cost) AS cost_usd, sum(coalesce(effective_cost, list_cost)) AS spent_usd,
  sum(CASE WHEN part IN ('idle', 'padding') THEN list_cost END) AS idle_cost_usd,
  -- what is known of each, and of how much of the estimate it is
  sum(public_cost) AS list_cost_usd, sum(effective_cost) AS effective_cost_usd, sum(billed_cost) AS billed_cost_usd,
  CAST(coalesce(sum(CASE WHEN public_cost IS NOT NULL THEN list_cost END), CAST(0 AS DECIMAL(38,12))) AS DOUBLE) / nullif(CAST(sum(list_cost) AS DOUBLE), 0.0) AS list_share,
  CAST(coalesce(sum(CASE WHEN effective_cost IS NOT NULL THEN list_cost END), CAST(0 AS DECIMAL(38,12))) AS DOUBLE) / nullif(CAST(sum(list_cost) AS DOUBLE), 0.0) AS effective_share,
  CAST(coalesce(sum(CASE WHEN billed_cost IS NOT NULL THEN list_cost END), CAST(0 AS DECIMAL(38,12))) AS DOUBLE) / nullif(CAST(sum(list_cost) AS DOUBLE), 0.0) AS billed_share,
  count(DISTINCT CASE WHEN basis = 'no price' THEN host_id END) AS unpriced_hosts,
  string_agg(DISTINCT basis, ', ') AS basis, string_agg(DISTINCT method, ', ') AS method,
  min(price_as_of) AS oldest_price_as_of, 'show' AS idle_policy
FROM costs_hours
GROUP BY date_trunc('month', time), region, model
