SELECT date_bin(INTERVAL '15 minutes', time) AS bucket, sum(requests) / 900.0 AS requests_per_s, sum(output_tokens) / 900.0 AS output_tokens_per_s,
  CAST(sum(CASE WHEN status = 'error' THEN requests ELSE 0 END) AS DOUBLE) / sum(requests) AS errors,
  exph_quantile(exph_merge(exph_of(ttft_scale, ttft_zero, ttft_idx, ttft_cnt, ttft_count, ttft_sum, ttft_min, ttft_max)), 0.99) AS ttft_p99_s
FROM requests_1m
WHERE measured_at = 'server' AND time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
GROUP BY bucket
ORDER BY bucket
