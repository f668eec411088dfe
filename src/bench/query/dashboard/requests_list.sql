SELECT time, trace_id, span_id, region, model, tenant, host_type, measured_at, status, finish_reason, input_tokens, output_tokens,
  queue_s, ttft_s, itl_max_s, e2e_s
FROM requests
WHERE time >= TIMESTAMP '2026-07-08 12:45:00' AND time < TIMESTAMP '2026-07-08 13:00:00'
ORDER BY time DESC, span_id DESC
LIMIT 51
