SELECT time, region, model, measured_at, queue_s, prefill_s, decode_s, ttft_s, ttft_definition, tpot_s, itl_max_s, e2e_s,
  input_tokens, output_tokens, status, tenant, environment, cluster, pool, host_id, host_type, instance, engine, service_version,
  trace_id, span_id
FROM requests
