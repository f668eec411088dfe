SELECT date_bin(INTERVAL '5 minutes', time) AS bucket, region, sum(tokens) / 300.0 AS tokens_per_s
FROM tokens_1m
WHERE time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
GROUP BY bucket, region
ORDER BY bucket, region
