SELECT slo_set, region, model, sum(good) AS good, sum(requests) AS requests, 1.0 - CAST(sum(good) AS DOUBLE) / sum(requests) AS bad_share
FROM requests_1m
WHERE measured_at = 'server' AND time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
GROUP BY slo_set, region, model
ORDER BY bad_share DESC
LIMIT 6
