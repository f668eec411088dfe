SELECT time, region, model, measured_at, ttft_s, ttft_definition, queue_s, prefill_s, input_tokens, cached_input_tokens, status,
  tenant, environment, cluster, pool, host_id, host_type, instance, engine, service_version, trace_id, span_id
FROM requests
WHERE ttft_s IS NOT NULL
