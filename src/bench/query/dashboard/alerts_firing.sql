SELECT name, region, model, max(starts_at) AS since, count(*) AS notifications
FROM alerts
WHERE status = 'firing' AND time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
GROUP BY name, region, model
ORDER BY since DESC
