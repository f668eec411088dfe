SELECT date_bin(INTERVAL '5 minutes', time) AS bucket, region, boundary, sum(energy_j) / 300.0 AS power_w
FROM devices_1m
WHERE kind = 'accelerator' AND time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
GROUP BY bucket, region, boundary
ORDER BY bucket, region
