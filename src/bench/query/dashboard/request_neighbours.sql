SELECT time, trace_id, tenant, queue_s, ttft_s, e2e_s, input_tokens, output_tokens
FROM requests
WHERE host_id = '$host_id' AND time >= TIMESTAMP '2026-07-08 12:29:00' AND time < TIMESTAMP '2026-07-08 12:31:00'
ORDER BY time, trace_id
