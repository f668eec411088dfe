WITH expected AS (
  SELECT host_id, host_type, region, zone, coalesce("option", 'on_demand') AS bought, "option" IS NULL AS is_assumed, account, chips,
    source, as_of,
    -- whole hours of the last 31 days that are over
    unnest(range(
      greatest((CAST(effective_from AS BIGINT) + 3599999999) / 3600000000, now_us / 3600000000 - 744),
      least(coalesce(CAST(effective_to AS BIGINT), now_us), now_us) / 3600000000
    )) AS hour
  FROM (SELECT *, CAST(arrow_cast(now(), 'Timestamp(Microsecond, Some("UTC"))') AS BIGINT) AS now_us FROM inventory)
),
listed AS (
  -- a host in several lists is one host, as the newest of them has it
  SELECT *, row_number() OVER (PARTITION BY host_id, hour ORDER BY as_of DESC NULLS LAST, source, host_type, bought) AS place FROM expected
),
known AS (
  SELECT DISTINCT host_id, CAST(time AS BIGINT) / 3600000000 AS hour
  FROM costs_hours
  WHERE time >= now() - INTERVAL '32 days'
),
silent AS (
  SELECT e.*
  FROM listed AS e
  WHERE e.place = 1 AND NOT EXISTS (SELECT 1 FROM known AS k WHERE k.host_id = e.host_id AND k.hour = e.hour)
),
priced AS (
  -- as in `node_cost`: the best price is taken, by the rate of its currency, and without one it is none; no other price stands in for it
  SELECT s.host_id, s.hour, coalesce(p.usd_per_hour, money_scale(p.price_per_hour, r.billionths, CAST(1000000000 AS BIGINT))) AS usd_per_hour,
    p.as_of, p.source, p.confidence,
    row_number() OVER (PARTITION BY s.host_id, s.hour ORDER BY p.book IS NULL, p.zone IS NULL, p.effective_from DESC, p.book, p.usd_per_hour) AS place
  FROM silent AS s
  JOIN prices AS p ON p.host_type = s.host_type AND p.region = s.region AND p."option" = s.bought AND (p.zone IS NULL OR p.zone = s.zone)
    AND CAST(p.effective_from AS BIGINT) <= s.hour * 3600000000
    AND (p.effective_to IS NULL OR CAST(p.effective_to AS BIGINT) > s.hour * 3600000000)
  LEFT JOIN (
    SELECT currency, effective_from, effective_to, CAST(round(CAST(usd_per_unit AS DOUBLE) * 1000000000.0) AS BIGINT) AS billionths
    FROM exchange_rates
  ) AS r ON r.currency = p.currency AND CAST(r.effective_from AS BIGINT) <= s.hour * 3600000000
    AND (r.effective_to IS NULL OR CAST(r.effective_to AS BIGINT) > s.hour * 3600000000)
)
SELECT arrow_cast(s.hour * 3600000000, 'Timestamp(Microsecond, Some("UTC"))') AS time, s.region, CAST(NULL AS VARCHAR) AS model,
  s.host_id, s.host_type, s.bought AS "option", CASE WHEN s.is_assumed THEN 'assumed' ELSE 'inventory' END AS option_source, s.account, s.chips,
  p.usd_per_hour, p.usd_per_hour AS cost_usd,
  CASE
    WHEN p.usd_per_hour IS NULL THEN 'no price'
    WHEN s.is_assumed THEN 'list, assumed on-demand'
    ELSE 'list, ' || replace(s.bought, '_', '-')
  END AS basis,
  'whole hour' AS method, p.as_of AS price_as_of, p.source AS price_source, p.confidence AS price_confidence,
  s.source AS listed_by, s.as_of AS listed_as_of, 'show' AS idle_policy
FROM silent AS s
LEFT JOIN (SELECT * FROM priced WHERE place = 1) AS p ON p.host_id = s.host_id AND p.hour = s.hour
