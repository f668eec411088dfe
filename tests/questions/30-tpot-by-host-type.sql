-- question: How fast do tokens come on each kind of hardware?
-- asked by: analyst
-- tolerance: p50_s 1.09%
SELECT host_type, model, exph_quantile(exph(tpot_s), 0.5) AS p50_s
FROM latency
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP) AND measured_at = 'server' AND tpot_s IS NOT NULL
GROUP BY host_type, model
ORDER BY host_type, model
