WITH windows AS (
  SELECT time, minute - back AS bucket, host_id, instance, from_us, to_us
  FROM engine_minutes CROSS JOIN (VALUES (0), (1), (2)) AS reach(back)
),
shares AS (
  SELECT w.time, w.host_id, w.instance, t.trace_id, t.request_span_id, max(t.region) AS region, max(t.model) AS model,
    max(t.tenant) AS tenant, max(t.host_type) AS host_type, sum(t.device_us) AS device_us, sum(t."count") AS output_tokens
  FROM windows AS w
  JOIN tokens AS t ON t.host_id = w.host_id AND t.instance = w.instance AND (CAST(t.time AS BIGINT) - 1) / 60000000 = w.bucket
    AND CAST(t.time AS BIGINT) > w.from_us AND CAST(t.time AS BIGINT) <= w.to_us
  GROUP BY w.time, w.host_id, w.instance, t.trace_id, t.request_span_id
)
SELECT s.time, s.region, s.model, s.tenant, s.trace_id, s.request_span_id, s.host_id, s.host_type, s.instance,
  s.device_us, s.output_tokens,
  CASE WHEN s.device_us IS NOT NULL THEN money_split(c.cost_usd, coalesce(s.device_us, CAST(0 AS BIGINT)))
    OVER (PARTITION BY s.time, s.host_id, s.instance ORDER BY s.trace_id, s.request_span_id) END AS cost_usd,
  c.basis, c.method
FROM shares AS s
JOIN replica_cost AS c ON c.part = 'requests' AND c.time = s.time AND c.host_id = s.host_id AND c.instance = s.instance
