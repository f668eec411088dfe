SELECT region, model, sum(requests) AS requests, sum(output_tokens) / 86400.0 AS output_tokens_per_s,
  exph_quantile(exph_merge(exph_of(ttft_scale, ttft_zero, ttft_idx, ttft_cnt, ttft_count, ttft_sum, ttft_min, ttft_max)), 0.99) AS ttft_p99_s
FROM requests_1m
WHERE measured_at = 'server' AND time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
GROUP BY region, model
ORDER BY region, model
