SELECT model, exph_rank(h, 2.0) AS faster_e2e, exph_quantile(h, 0.5) AS e2e_p50_s, exph_quantile(h, 0.99) AS e2e_p99_s
FROM (
  SELECT model, exph_merge(exph_of(e2e_scale, e2e_zero, e2e_idx, e2e_cnt, e2e_count, e2e_sum, e2e_min, e2e_max)) AS h
  FROM requests_1m
  WHERE measured_at = 'server' AND region = 'eu-west-1' AND time >= TIMESTAMP '2026-07-08 12:00:00' AND time < TIMESTAMP '2026-07-08 13:00:00'
  GROUP BY model
)
ORDER BY model
