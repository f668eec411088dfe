-- question: On which hosts do calls wait?
-- asked by: sre
-- tolerance: p95_s 1.09%
SELECT host_id, exph_quantile(exph(queue_s), 0.95) AS p95_s, avg(queue_s) AS mean_s
FROM latency
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP) AND measured_at = 'server'
GROUP BY host_id
ORDER BY host_id
