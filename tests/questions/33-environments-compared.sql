-- question: Is staging as fast as production?
-- asked by: analyst
-- tolerance: p95_s 1.09%
SELECT environment, count(*) AS calls, exph_quantile(exph(e2e_s), 0.95) AS p95_s
FROM calls
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP)
GROUP BY environment
ORDER BY environment
