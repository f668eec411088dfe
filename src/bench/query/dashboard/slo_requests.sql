SELECT time, trace_id, tenant, host_id, ttft_s, queue_s, e2e_s, output_tokens
FROM requests
WHERE measured_at = 'server' AND region = 'eu-west-1' AND model = 'llama-3-70b' AND ttft_s > 0.8
  AND time >= TIMESTAMP '2026-07-08 12:45:00' AND time < TIMESTAMP '2026-07-08 13:00:00'
ORDER BY ttft_s DESC, trace_id
LIMIT 50
