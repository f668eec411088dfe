SELECT time, trace_id, tenant, queue_s, prefill_s, ttft_s, e2e_s, output_tokens
FROM requests
WHERE host_id = '$host_id' AND measured_at = 'server' AND time >= TIMESTAMP '2026-07-08 12:45:00' AND time < TIMESTAMP '2026-07-08 13:00:00'
ORDER BY e2e_s DESC, trace_id
LIMIT 20
