SELECT bucket, exph_quantile(h, 0.5) AS ttft_p50_s, exph_quantile(h, 0.9) AS ttft_p90_s, exph_quantile(h, 0.99) AS ttft_p99_s
FROM (
  SELECT date_bin(INTERVAL '5 minutes', time) AS bucket,
    exph_merge(exph_of(ttft_scale, ttft_zero, ttft_idx, ttft_cnt, ttft_count, ttft_sum, ttft_min, ttft_max)) AS h
  FROM requests_1m
  WHERE measured_at = 'server' AND time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
  GROUP BY bucket
)
ORDER BY bucket
