SELECT service_version, model, sum(requests) AS requests, sum(ttft_sum) / sum(ttft_count) AS ttft_s, sum(e2e_sum) / sum(e2e_count) AS e2e_s
FROM requests_1m
WHERE measured_at = 'server' AND time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
GROUP BY service_version, model
ORDER BY model, service_version
