WITH windows AS (
  SELECT *, minute - back AS bucket
  FROM engine_minutes CROSS JOIN (VALUES (0), (1), (2)) AS reach(back)
),
made AS (
  -- a window has three rows here, of which each token meets one
  SELECT w.time, w.host_id, w.instance, max(w.region) AS region, max(w.model) AS model, max(w.host_type) AS host_type,
    max(w.accelerator) AS accelerator, max(w.chips) AS chips, max(w.chip_parts) AS chip_parts, max(w.environment) AS environment,
    max(w.cluster) AS cluster, max(w.pool) AS pool, max(w.from_us) AS from_us, max(w.to_us) AS to_us, max(w.wall_us) AS wall_us,
    max(w.busy_us) AS busy_us, max(w.padding_us) AS padding_us,
    coalesce(sum(t.device_us), 0) AS requests_us, coalesce(sum(t."count"), 0) AS output_tokens
  FROM windows AS w
  LEFT JOIN tokens AS t ON t.host_id = w.host_id AND t.instance = w.instance AND (CAST(t.time AS BIGINT) - 1) / 60000000 = w.bucket
    AND CAST(t.time AS BIGINT) > w.from_us AND CAST(t.time AS BIGINT) <= w.to_us
  GROUP BY w.time, w.host_id, w.instance
)
SELECT time, region, model, host_id, host_type, instance, accelerator, chips, environment, cluster, pool, from_us, to_us, wall_us,
  requests_us, busy_us - requests_us AS unattributed_us, padding_us, wall_us - busy_us - padding_us AS idle_us, output_tokens,
  'engine counters and token shares' AS method, chip_parts
FROM made
