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
served AS (
  SELECT (CAST(time AS BIGINT) - 1) / 60000000 AS minute, host_id, sum(output_tokens) AS output_tokens, min(coalesce(token_sampling, 0.0)) AS share,
    CASE WHEN count(DISTINCT model) = 1 THEN max(model) END AS model
  FROM requests
  WHERE measured_at = 'server' AND host_id IS NOT NULL
  GROUP BY 1, 2
),
flights AS (
  SELECT time, host_id, min(coalesce(token_sampling, 0.0)) AS share FROM call_minutes GROUP BY time, host_id
),
loaded AS (
  SELECT minute, host_id, CASE WHEN count(DISTINCT model) = 1 THEN max(model) END AS model
  FROM engine_minutes
  GROUP BY minute, host_id
),
hosts AS (
  SELECT e.*, coalesce(m.model, v.model, l.model) AS served_model,
    -- where not every call that came or was in flight in the minute sends its tokens, those that came say how many there were
    CASE WHEN least(coalesce(v.share, 1.0), coalesce(f.share, 1.0)) < 1.0 THEN v.output_tokens ELSE m.output_tokens END AS output_tokens
  FROM host_energy AS e
  LEFT JOIN made AS m ON m.minute = e.minute AND m.host_id = e.host_id
  LEFT JOIN served AS v ON v.minute = e.minute AND v.host_id = e.host_id
  LEFT JOIN flights AS f ON f.time = e.time AND f.host_id = e.host_id
  LEFT JOIN loaded AS l ON l.minute = e.minute AND l.host_id = e.host_id
  WHERE e.to_us > e.from_us
)
SELECT time, region, served_model AS model, host_type, boundary, method, confidence,
  count(DISTINCT host_id) AS hosts,
  coalesce(sum(output_tokens), 0) AS output_tokens,
  sum(joules) AS joules,
  CAST(coalesce(sum(output_tokens), 0) AS DOUBLE) / nullif(sum(joules), 0.0) AS tokens_per_joule,
  -- each host's energy over its own window, so that windows of different length still add up to watts
  sum(joules / (CAST(to_us - from_us AS DOUBLE) / 1000000.0)) AS power_w,
  min(coverage) AS coverage, bool_and(is_valid) AS is_valid
FROM hosts
GROUP BY time, region, served_model, host_type, boundary, method, confidence
