WITH half AS (
  SELECT time >= TIMESTAMP '2026-07-08 12:00:00' AS is_now, sum(requests) AS requests, sum(output_tokens) AS output_tokens,
    sum(CASE WHEN status = 'error' THEN requests ELSE 0 END) AS errors,
    exph_merge(exph_of(ttft_scale, ttft_zero, ttft_idx, ttft_cnt, ttft_count, ttft_sum, ttft_min, ttft_max)) AS ttft
  FROM requests_1m
  WHERE measured_at = 'server' AND time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
  GROUP BY 1
),
gaps AS (
  SELECT time >= TIMESTAMP '2026-07-08 12:00:00' AS is_now,
    exph_merge(exph_of(gap_scale, gap_zero, gap_idx, gap_cnt, gap_count, gap_sum, gap_min, gap_max)) AS gap
  FROM tokens_1m
  WHERE time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
  GROUP BY 1
)
SELECT half.is_now, requests / 43200.0 AS requests_per_s, output_tokens / 43200.0 AS output_tokens_per_s,
  exph_quantile(ttft, 0.5) AS ttft_p50_s, exph_quantile(ttft, 0.99) AS ttft_p99_s,
  exph_quantile(gap, 0.5) AS itl_p50_s, exph_quantile(gap, 0.99) AS itl_p99_s, CAST(errors AS DOUBLE) / requests AS errors
FROM half
JOIN gaps ON gaps.is_now = half.is_now
ORDER BY is_now
