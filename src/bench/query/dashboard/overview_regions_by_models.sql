SELECT region, model, sum(requests) AS requests, sum(output_tokens) / 86400.0 AS tokens_per_s, max(ttft_max) AS ttft_max_s
FROM requests_1m
WHERE measured_at = 'server' AND time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
GROUP BY region, model
ORDER BY region, model
