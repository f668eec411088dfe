SELECT date_trunc('hour', time) AS time, region, CAST(NULL AS VARCHAR) AS model, host_type, "option",
  CASE
    WHEN host_type IS NULL THEN 'the host does not say its type'
    WHEN region IS NULL THEN 'the host does not say its region'
    WHEN max(without_rate) IS NOT NULL THEN 'its price is in ' || max(without_rate) || ', and no row of `exchange_rates` is in force'
    ELSE 'no row of `prices` in force for ' || host_type || ', ' || replace("option", '_', '-') || ', in ' || region
  END AS reason,
  count(DISTINCT host_id) AS hosts, min(host_id) AS host_id, sum(charged_us) AS charged_us,
  string_agg(DISTINCT option_source, ', ') AS option_source
FROM node_cost
WHERE usd_per_hour IS NULL
GROUP BY date_trunc('hour', time), region, host_type, "option"
UNION ALL
SELECT date_trunc('hour', b.time), b.region, CAST(NULL AS VARCHAR), b.host_type, b."option",
  'its bill is in ' || b.currency || ', and no row of `exchange_rates` is in force', count(DISTINCT b.host_id), min(b.host_id),
  CAST(NULL AS BIGINT), 'bill'
FROM billing AS b
LEFT JOIN exchange_rates AS r ON r.currency = b.currency AND r.effective_from <= b.time AND (r.effective_to IS NULL OR r.effective_to > b.time)
WHERE b.charge_kind = 'host_time' AND b.currency <> 'USD' AND r.currency IS NULL
GROUP BY date_trunc('hour', b.time), b.region, b.host_type, b."option", b.currency
