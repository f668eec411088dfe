SELECT date_bin(INTERVAL '5 minutes', time) AS bucket, CAST(sum(good) AS DOUBLE) / sum(requests) AS goodput
FROM requests_1m
WHERE measured_at = 'server' AND time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
GROUP BY bucket
ORDER BY bucket
