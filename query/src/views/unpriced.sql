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
SELECT date_trunc('hour', time), region, CAST(NULL AS VARCHAR), host_type, "option", reason, count(DISTINCT host_id), min(host_id),
  CAST(NULL AS BIGINT), 'bill'
FROM (
  SELECT *, unnest(make_array(
      'its bill is in ' || without_rate || ', and no row of `exchange_rates` is in force',
      'what is charged beside its time is in ' || other_without_rate || ', and no row of `exchange_rates` is in force'
    )) AS reason
  FROM host_charges
)
WHERE reason IS NOT NULL
GROUP BY date_trunc('hour', time), region, host_type, "option", reason
