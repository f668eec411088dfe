SELECT host_type, service_version, model, bucket, exph_quantile(h, 0.99) AS e2e_p99_s
FROM (
  SELECT host_type, service_version, model, date_bin(INTERVAL '15 minutes', time) AS bucket,
    exph_merge(exph_of(e2e_scale, e2e_zero, e2e_idx, e2e_cnt, e2e_count, e2e_sum, e2e_min, e2e_max)) AS h
  FROM requests_1m
  WHERE measured_at = 'server' AND time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
  GROUP BY host_type, service_version, model, bucket
)
ORDER BY host_type, service_version, model, bucket
