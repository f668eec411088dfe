SELECT date_bin(INTERVAL '5 minutes', time) AS bucket, sum(requests) AS requests, sum(tokens) AS tokens,
  exph_quantile(exph_merge(exph_of(ttft_scale, ttft_zero, ttft_idx, ttft_cnt, ttft_count, ttft_sum, ttft_min, ttft_max)), 0.99) AS ttft_p99_s,
  CAST(sum(idle_us) AS DOUBLE) / sum(wall_us) AS idle, CAST(sum(padding_us) AS DOUBLE) / sum(wall_us) AS padding
FROM hosts_1m
WHERE host_id = '$host_id' AND time >= TIMESTAMP '2026-07-08 07:00:00' AND time < TIMESTAMP '2026-07-08 13:00:00'
GROUP BY bucket
ORDER BY bucket
