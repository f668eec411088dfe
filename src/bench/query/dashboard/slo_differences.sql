WITH hosts AS (
  SELECT host_id, sum(requests) AS requests,
    exph_merge(exph_of(ttft_scale, ttft_zero, ttft_idx, ttft_cnt, ttft_count, ttft_sum, ttft_min, ttft_max)) AS ttft
  FROM hosts_1m
  WHERE region = 'eu-west-1' AND model = 'llama-3-70b' AND time >= TIMESTAMP '2026-07-08 12:00:00' AND time < TIMESTAMP '2026-07-08 13:00:00'
  GROUP BY host_id
),
counted AS (
  SELECT host_id, requests, requests * (1.0 - exph_rank(ttft, 0.2)) AS slow
  FROM hosts
)
SELECT host_id, slow / sum(slow) OVER () AS share_of_slow, CAST(requests AS DOUBLE) / sum(requests) OVER () AS share_of_all
FROM counted
ORDER BY share_of_slow DESC, host_id
LIMIT 12
