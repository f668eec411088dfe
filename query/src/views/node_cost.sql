WITH sightings AS (
  SELECT CAST(time AS BIGINT) AS at, region, zone, host_id, host_type, CAST(NULL AS VARCHAR) AS model,
    1 AS is_sample, CAST(NULL AS BIGINT) AS input_tokens, CAST(NULL AS BIGINT) AS output_tokens
  FROM devices
  WHERE host_id IS NOT NULL
  UNION ALL
  SELECT CAST(time AS BIGINT), region, zone, host_id, host_type, model, 0, input_tokens, output_tokens
  FROM requests
  WHERE host_id IS NOT NULL AND measured_at = 'server'
),
ordered AS (
  SELECT *, lag(at) OVER (PARTITION BY host_id ORDER BY at) AS at_before, max(is_sample) OVER (PARTITION BY host_id) AS is_sampled
  FROM sightings
),
hosts AS (
  SELECT (at - 1) / 60000000 AS minute, host_id, max(region) AS region, max(zone) AS zone, max(host_type) AS host_type,
    CASE WHEN count(DISTINCT model) = 1 THEN max(model) END AS model,
    sum(1 - is_sample) AS requests, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
    -- a host without samples is seen by its requests alone and counts for the whole minute
    CASE WHEN max(is_sampled) = 1 THEN coalesce(sum(CASE WHEN at - at_before <= 120000000 THEN at - at_before END), 0) ELSE 60000000 END AS seen_us
  FROM ordered
  GROUP BY 1, 2
),
engines AS (
  SELECT minute, host_id, max(wall_us) AS wall_us, CASE WHEN count(DISTINCT model) = 1 THEN max(model) END AS model
  FROM engine_minutes
  GROUP BY minute, host_id
),
capacity AS (
  SELECT host_id, max(CASE WHEN capacity_type <> 'unknown' THEN capacity_type END) AS capacity_type
  FROM nodes
  GROUP BY host_id
),
charged AS (
  SELECT h.minute, h.region, h.zone, h.host_id, h.host_type, coalesce(e.model, h.model) AS model,
    coalesce(c.capacity_type, 'on_demand') AS "option", c.capacity_type IS NULL AS is_assumed,
    coalesce(e.wall_us, h.seen_us) AS charged_us, e.wall_us IS NOT NULL AS has_engine,
    h.requests, h.input_tokens, h.output_tokens
  FROM hosts AS h
  LEFT JOIN engines AS e ON e.minute = h.minute AND e.host_id = h.host_id
  LEFT JOIN capacity AS c ON c.host_id = h.host_id
),
priced AS (
  SELECT w.minute, w.host_type, w.region, w.zone, w."option", p.usd_per_hour, p.as_of, p.confidence, p.source,
    row_number() OVER (
      PARTITION BY w.minute, w.host_type, w.region, w.zone, w."option"
      ORDER BY p.zone IS NULL, p.effective_from DESC,
        CASE p.confidence WHEN 'measured' THEN 0 WHEN 'published' THEN 1 WHEN 'secondary' THEN 2 ELSE 3 END
    ) AS place
  FROM (SELECT DISTINCT minute, host_type, region, zone, "option" FROM charged) AS w
  JOIN prices AS p ON p.host_type = w.host_type AND p.region = w.region AND p."option" = w."option"
    AND (p.zone IS NULL OR p.zone = w.zone)
    AND CAST(p.effective_from AS BIGINT) <= w.minute * 60000000
    AND (p.effective_to IS NULL OR CAST(p.effective_to AS BIGINT) > w.minute * 60000000)
)
SELECT arrow_cast(c.minute * 60000000, 'Timestamp(Microsecond, Some("UTC"))') AS time, c.region, c.model,
  c.host_id, c.host_type, c."option", p.usd_per_hour, c.charged_us,
  money_scale(p.usd_per_hour, c.charged_us, CAST(3600000000 AS BIGINT)) AS cost_usd,
  CASE WHEN p.usd_per_hour IS NULL THEN 'no price' WHEN c.is_assumed THEN 'list, assumed on-demand' ELSE 'list, ' || replace(c."option", '_', '-') END AS basis,
  p.as_of AS price_as_of, p.confidence AS price_confidence, p.source AS price_source,
  c.has_engine, c.requests, c.input_tokens, c.output_tokens
FROM charged AS c
LEFT JOIN (SELECT * FROM priced WHERE place = 1) AS p
  ON p.minute = c.minute AND p.host_type = c.host_type AND p.region = c.region AND p."option" = c."option"
  AND p.zone IS NOT DISTINCT FROM c.zone
