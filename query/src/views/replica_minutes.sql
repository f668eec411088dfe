WITH windows AS (
  SELECT minute, minute - back AS bucket, host_id, instance, from_us, to_us
  FROM engine_minutes CROSS JOIN (VALUES (0), (1), (2)) AS reach(back)
),
made AS (
  SELECT w.minute, w.host_id, w.instance, sum(t.device_us) AS requests_us, sum(t."count") AS output_tokens
  FROM windows AS w
  JOIN tokens AS t ON t.host_id = w.host_id AND t.instance = w.instance AND (CAST(t.time AS BIGINT) - 1) / 60000000 = w.bucket
    AND CAST(t.time AS BIGINT) > w.from_us AND CAST(t.time AS BIGINT) <= w.to_us
  GROUP BY w.minute, w.host_id, w.instance
)
SELECT e.time, e.region, e.model, e.host_id, e.host_type, e.instance, e.accelerator, e.chips, e.environment, e.cluster, e.pool,
  e.from_us, e.to_us, e.wall_us,
  coalesce(m.requests_us, 0) AS requests_us,
  e.busy_us - coalesce(m.requests_us, 0) AS unattributed_us,
  e.padding_us,
  e.wall_us - e.busy_us - e.padding_us AS idle_us,
  coalesce(m.output_tokens, 0) AS output_tokens,
  'engine counters and token shares' AS method
FROM engine_minutes AS e
LEFT JOIN made AS m ON m.minute = e.minute AND m.host_id = e.host_id AND m.instance = e.instance
