SELECT time, region, model, trace_id, request_span_id, choice, "index", "count",
  CAST(CAST(time AS BIGINT) - lag(CAST(time AS BIGINT)) OVER stream AS DOUBLE) / 1000000.0 AS gap_s,
  stall, batch_size, device_us, tenant, host_id, host_type, instance
FROM tokens
WINDOW stream AS (PARTITION BY trace_id, request_span_id, choice ORDER BY "index")
