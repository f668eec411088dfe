WITH placed AS (
  SELECT *, CAST(time AS BIGINT) AS at, CASE measured_at WHEN 'server' THEN 0 WHEN 'gateway' THEN 1 ELSE 2 END AS distance
  FROM requests
),
seen AS (
  -- as in `calls`: the earliest nearer row of the trace from a second before this one on
  SELECT *,
    min(CASE WHEN distance = 0 THEN at END) OVER later AS server_at,
    min(CASE WHEN distance <= 1 THEN at END) OVER later AS gateway_at
  FROM placed
  WINDOW later AS (PARTITION BY trace_id ORDER BY at DESC RANGE BETWEEN UNBOUNDED PRECEDING AND 1000000 FOLLOWING)
)
SELECT time, region, model, measured_at,
  CAST(CASE
    WHEN trace_id IS NULL OR distance = 0 THEN 1
    WHEN CASE distance WHEN 1 THEN server_at ELSE gateway_at END
      <= at + CAST(CASE WHEN e2e_s BETWEEN -1.0e9 AND 1.0e9 THEN e2e_s ELSE 900.0 END * 1000000.0 AS BIGINT) + 1000000 THEN 0
    ELSE 1
  END AS BIGINT) AS counts,
  CAST(NULL AS VARCHAR) AS slo_set, CAST(NULL AS VARCHAR) AS slo_met, -- those of `slos` in force, where there are any
  queue_s, ttft_s, tpot_s, itl_max_s, e2e_s, input_tokens, cached_input_tokens, output_tokens, device_us_prefill, device_us_decode,
  status, tenant, environment, cluster, namespace, pool, host_id, host_type, instance, engine, service_version, trace_id, span_id
FROM seen
