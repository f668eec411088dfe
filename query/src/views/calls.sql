SELECT r.time, r.region, r.model, r.measured_at, r.tenant, r.operation, r.stream, r.status, r.error_type, r.finish_reason,
  r.input_tokens, r.cached_input_tokens, r.output_tokens, r.reasoning_tokens,
  r.queue_s, r.prefill_s, r.decode_s, r.ttft_s, r.ttft_definition, r.tpot_s, r.itl_max_s, r.e2e_s,
  r.device_us_prefill, r.device_us_decode, r.token_sampling, r.quality,
  r.environment, r.cluster, r.namespace, r.pool, r.zone, r.host_id, r.host_type, r.service, r.service_version, r.instance,
  r.engine, r.accelerator, r.chips, r.quantization, r.tensor_parallel,
  r.trace_id, r.span_id, r.parent_span_id, r.request_id, r.attributes
FROM requests AS r
WHERE NOT EXISTS (
  SELECT 1 FROM requests AS nearer
  WHERE nearer.trace_id = r.trace_id
    AND nearer.measured_at IN ('server', 'gateway')
    AND CASE nearer.measured_at WHEN 'server' THEN 0 WHEN 'gateway' THEN 1 ELSE 2 END
      < CASE r.measured_at WHEN 'server' THEN 0 WHEN 'gateway' THEN 1 ELSE 2 END
    -- clocks of two hosts differ: one second either way still is "inside"
    AND CAST(nearer.time AS BIGINT) >= CAST(r.time AS BIGINT) - 1000000
    AND CAST(nearer.time AS BIGINT) <= CAST(r.time AS BIGINT) + CAST(coalesce(r.e2e_s, 900.0) * 1000000.0 AS BIGINT) + 1000000
)
