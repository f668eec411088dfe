SELECT date_bin(INTERVAL '15 minutes', time) AS bucket, service_version, sum(requests) AS requests
FROM requests_1m
WHERE measured_at = 'server' AND time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
GROUP BY bucket, service_version
ORDER BY bucket, service_version
