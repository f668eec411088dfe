WITH placed AS (
  SELECT *, CAST(time AS BIGINT) AS at, CASE measured_at WHEN 'server' THEN 0 WHEN 'gateway' THEN 1 ELSE 2 END AS distance
  FROM requests
  WHERE trace_id IS NOT NULL
),
seen AS (
  -- latest first, so that a trace is gone through once however many calls it holds: the earliest nearer row from a second before
  -- this one on, for clocks of two hosts differ
  SELECT *,
    min(CASE WHEN distance = 0 THEN at END) OVER later AS server_at,
    min(CASE WHEN distance <= 1 THEN at END) OVER later AS gateway_at
  FROM placed
  WINDOW later AS (PARTITION BY trace_id ORDER BY at DESC RANGE BETWEEN UNBOUNDED PRECEDING AND 1000000 FOLLOWING)
)
SELECT time, region, model, measured_at, tenant, operation, stream, status, error_type, finish_reason,
  input_tokens, cached_input_tokens, output_tokens, reasoning_tokens,
  queue_s, prefill_s, decode_s, ttft_s, ttft_definition, tpot_s, itl_max_s, e2e_s,
  device_us_prefill, device_us_decode, token_sampling, quality,
  environment, cluster, namespace, pool, zone, host_id, host_type, service, service_version, instance,
  engine, accelerator, chips, quantization, tensor_parallel,
  trace_id, span_id, parent_span_id, request_id, attributes
FROM seen
WHERE distance = 0
  -- nothing nearer begins before this one ends, a second later by another clock
  OR coalesce(CASE distance WHEN 1 THEN server_at ELSE gateway_at END
    > at + CAST(coalesce(e2e_s, 900.0) * 1000000.0 AS BIGINT) + 1000000, true)
UNION ALL
SELECT time, region, model, measured_at, tenant, operation, stream, status, error_type, finish_reason,
  input_tokens, cached_input_tokens, output_tokens, reasoning_tokens,
  queue_s, prefill_s, decode_s, ttft_s, ttft_definition, tpot_s, itl_max_s, e2e_s,
  device_us_prefill, device_us_decode, token_sampling, quality,
  environment, cluster, namespace, pool, zone, host_id, host_type, service, service_version, instance,
  engine, accelerator, chips, quantization, tensor_parallel,
  trace_id, span_id, parent_span_id, request_id, attributes
FROM requests
WHERE trace_id IS NULL
