SELECT sum(requests) AS requests, sum(output_tokens) AS output_tokens, sum(ttft_sum) / sum(ttft_count) AS ttft_s,
  sum(tpot_sum) / sum(tpot_count) AS tpot_s, CAST(sum(CASE WHEN status = 'error' THEN requests ELSE 0 END) AS DOUBLE) / sum(requests) AS errors
FROM requests_1m
WHERE measured_at = 'server' AND time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
