-- question: How long do calls take at the median and at p95, by model and by where they are measured?
-- asked by: sre
-- tolerance: p50_s 1.09%, p95_s 1.09%
SELECT model, measured_at, exph_quantile(exph(e2e_s), 0.5) AS p50_s, exph_quantile(exph(e2e_s), 0.95) AS p95_s
FROM latency
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP) AND e2e_s IS NOT NULL
GROUP BY model, measured_at
ORDER BY model, measured_at
