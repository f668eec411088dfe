WITH gaps AS (
  SELECT CAST(time AS BIGINT) AS at, region, model, environment, cluster, pool, host_type, service_version, stall, "count", device_us,
    CAST(time AS BIGINT) - lag(CAST(time AS BIGINT)) OVER stream AS gap_us
  FROM tokens
  WINDOW stream AS (PARTITION BY trace_id, request_span_id, choice ORDER BY "index")
),
minutes AS (
  SELECT at / 60000000 AS minute, region, model, environment, cluster, pool, host_type, service_version, stall,
    sum("count") AS tokens, sum(device_us) AS device_us,
    -- a stream that was silent for longer was interrupted, not slow
    exph(CASE WHEN gap_us BETWEEN 0 AND 60000000 THEN CAST(gap_us AS DOUBLE) / 1000000.0 END) AS gap
  FROM gaps
  GROUP BY at / 60000000, region, model, environment, cluster, pool, host_type, service_version, stall
)
SELECT arrow_cast(minute * 60000000, 'Timestamp(Microsecond, Some("UTC"))') AS time, region, model,
  environment, cluster, pool, CAST(NULL AS VARCHAR) AS engine, host_type, service_version,
  'server' AS measured_at, CAST(NULL AS VARCHAR) AS status, stall, tokens, device_us,
  gap['scale'] AS gap_scale, gap['zero'] AS gap_zero, gap['idx'] AS gap_idx, gap['cnt'] AS gap_cnt,
  gap['count'] AS gap_count, gap['sum'] AS gap_sum, gap['min'] AS gap_min, gap['max'] AS gap_max
FROM minutes
