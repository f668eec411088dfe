SELECT time, trace_id, span_id, region, model, tenant, host_type, measured_at, status, finish_reason, input_tokens, output_tokens,
  queue_s, ttft_s, itl_max_s, e2e_s
FROM requests
ORDER BY e2e_s DESC, span_id, measured_at
LIMIT 50
