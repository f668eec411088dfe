SELECT date_bin(INTERVAL '5 minutes', time) AS bucket, region, avg(running) AS running, avg(waiting) AS waiting, max(kv_usage) AS kv_usage
FROM devices_1m
WHERE time >= TIMESTAMP '2026-07-08 07:00:00' AND time < TIMESTAMP '2026-07-08 13:00:00'
GROUP BY bucket, region
ORDER BY bucket, region
