WITH energy AS (
  SELECT host_id, host_type, sum(energy_j) AS joules
  FROM devices_1m
  WHERE kind = 'accelerator' AND time >= TIMESTAMP '2026-07-08 12:00:00' AND time < TIMESTAMP '2026-07-08 13:00:00'
  GROUP BY host_id, host_type
),
made AS (
  SELECT host_id, model, sum(tokens) AS tokens,
    exph_merge(exph_of(ttft_scale, ttft_zero, ttft_idx, ttft_cnt, ttft_count, ttft_sum, ttft_min, ttft_max)) AS ttft
  FROM hosts_1m
  WHERE time >= TIMESTAMP '2026-07-08 12:00:00' AND time < TIMESTAMP '2026-07-08 13:00:00'
  GROUP BY host_id, model
)
SELECT e.host_type, m.model, sum(e.joules) / sum(m.tokens) AS joules_per_token, exph_quantile(exph_merge(m.ttft), 0.99) AS ttft_p99_s
FROM energy AS e
JOIN made AS m ON m.host_id = e.host_id
GROUP BY e.host_type, m.model
ORDER BY e.host_type, m.model
