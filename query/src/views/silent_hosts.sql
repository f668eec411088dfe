WITH silent AS (
  SELECT time, region, host_id, host_type, basis, confidence, sum(device_us) AS silent_us, sum(list_cost) AS cost_usd, min(price_as_of) AS price_as_of
  FROM costs_hours
  WHERE part = 'idle' AND starts_with(method, 'listed and silent')
  GROUP BY time, region, host_id, host_type, basis, confidence
),
listed AS (
  -- a host in several lists is one host, as the newest of those has it that name its type
  SELECT s.*, i.account, i.chips, i.source, i.as_of, row_number() OVER (
      PARTITION BY s.time, s.region, s.host_id, s.host_type, s.basis, s.confidence ORDER BY coalesce(i.host_type = s.host_type, FALSE) DESC, i.as_of DESC NULLS LAST, i.source, i.list, i.effective_from
    ) AS place
  FROM silent AS s
  LEFT JOIN inventory AS i ON i.host_id = s.host_id AND i.effective_from < s.time + INTERVAL '1 hour' AND (i.effective_to IS NULL OR i.effective_to > s.time)
)
SELECT time, region, CAST(NULL AS VARCHAR) AS model, host_id, host_type, account, chips, silent_us, cost_usd, basis,
  'listed and silent' AS method, price_as_of, confidence AS price_confidence, source AS listed_by, as_of AS listed_as_of, 'show' AS idle_policy
FROM listed
WHERE place = 1
