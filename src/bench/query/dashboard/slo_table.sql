SELECT slo_set, region, model, sum(good) AS good, sum(requests) AS requests,
  1.0 - CAST(sum(CASE WHEN time >= TIMESTAMP '2026-07-08 12:00:00' THEN good END) AS DOUBLE)
    / sum(CASE WHEN time >= TIMESTAMP '2026-07-08 12:00:00' THEN requests END) AS bad_1h,
  1.0 - CAST(sum(CASE WHEN time >= TIMESTAMP '2026-07-08 07:00:00' THEN good END) AS DOUBLE)
    / sum(CASE WHEN time >= TIMESTAMP '2026-07-08 07:00:00' THEN requests END) AS bad_6h
FROM requests_1m
WHERE measured_at = 'server' AND time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-08 13:00:00'
GROUP BY slo_set, region, model
ORDER BY bad_1h DESC
