SELECT time, trace_id, model, host_id, ttft_s, e2e_s, input_tokens, output_tokens
FROM requests
WHERE tenant = 'team-150' AND time >= TIMESTAMP '2026-07-08 12:20:00' AND time < TIMESTAMP '2026-07-08 12:25:00'
ORDER BY time, trace_id, ttft_s
LIMIT 100
