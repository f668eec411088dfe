SELECT h.host_id, max(h.region) AS region, max(h.host_type) AS host_type, max(h.model) AS model, sum(h.tokens) / 900.0 AS tokens_per_s,
  sum(h.ttft_sum) / sum(h.ttft_count) AS ttft_s, CAST(sum(h.wall_us - h.idle_us) AS DOUBLE) / sum(h.wall_us) AS busy
FROM hosts_1m AS h
WHERE h.time >= TIMESTAMP '2026-07-08 12:45:00' AND h.time < TIMESTAMP '2026-07-08 13:00:00'
GROUP BY h.host_id
ORDER BY ttft_s DESC, host_id
LIMIT 50
