SELECT bucket, CAST(floor(index / 8.0) AS BIGINT) AS height, sum(count) AS requests
FROM (
  SELECT date_bin(INTERVAL '5 minutes', time) AS bucket, unnest(ttft_idx) AS index, unnest(ttft_cnt) AS count
  FROM requests_1m
  WHERE measured_at = 'server' AND region = 'eu-west-1' AND model = 'llama-3-70b'
    AND time >= TIMESTAMP '2026-07-08 07:00:00' AND time < TIMESTAMP '2026-07-08 13:00:00'
)
GROUP BY bucket, height
ORDER BY bucket, height
