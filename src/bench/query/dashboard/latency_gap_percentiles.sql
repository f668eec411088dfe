SELECT model, exph_quantile(h, 0.5) AS gap_p50_s, exph_quantile(h, 0.99) AS gap_p99_s
FROM (
  SELECT model, exph_merge(exph_of(gap_scale, gap_zero, gap_idx, gap_cnt, gap_count, gap_sum, gap_min, gap_max)) AS h
  FROM tokens_1m
  WHERE time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
  GROUP BY model
)
ORDER BY model
