SELECT region, host_id, sum(ttft_sum) / sum(ttft_count) AS ttft_s
FROM hosts_1m
WHERE time >= TIMESTAMP '2026-07-08 12:45:00' AND time < TIMESTAMP '2026-07-08 13:00:00'
GROUP BY region, host_id
ORDER BY region, host_id
