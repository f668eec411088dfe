WITH windows AS (
  SELECT minute, minute - back AS bucket, host_id, from_us, to_us
  FROM host_energy CROSS JOIN (VALUES (0), (1), (2)) AS reach(back)
),
made AS (
  SELECT w.minute, w.host_id, sum(t."count") AS output_tokens,
    CASE WHEN count(DISTINCT t.model) = 1 THEN max(t.model) END AS model
  FROM windows AS w
  JOIN tokens AS t ON t.host_id = w.host_id AND (CAST(t.time AS BIGINT) - 1) / 60000000 = w.bucket
    AND CAST(t.time AS BIGINT) > w.from_us AND CAST(t.time AS BIGINT) <= w.to_us
  GROUP BY w.minute, w.host_id
),
loaded AS (
  SELECT minute, host_id, CASE WHEN count(DISTINCT model) = 1 THEN max(model) END AS model
  FROM engine_minutes
  GROUP BY minute, host_id
)
SELECT e.time, e.region, coalesce(m.model, l.model) AS model, e.boundary, e.method, e.confidence,
  count(DISTINCT e.host_id) AS hosts,
  coalesce(sum(m.output_tokens), 0) AS output_tokens,
  sum(e.joules) AS joules,
  CAST(coalesce(sum(m.output_tokens), 0) AS DOUBLE) / nullif(sum(e.joules), 0.0) AS tokens_per_joule,
  -- each host's energy over its own window, so that windows of different length still add up to watts
  sum(e.joules / (CAST(e.to_us - e.from_us AS DOUBLE) / 1000000.0)) AS power_w
FROM host_energy AS e
LEFT JOIN made AS m ON m.minute = e.minute AND m.host_id = e.host_id
LEFT JOIN loaded AS l ON l.minute = e.minute AND l.host_id = e.host_id
WHERE e.to_us > e.from_us
GROUP BY e.time, e.region, coalesce(m.model, l.model), e.boundary, e.method, e.confidence
