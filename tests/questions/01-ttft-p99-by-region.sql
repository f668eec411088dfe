-- question: Which region is slowest to the first token?
-- asked by: sre
-- tolerance: p99_s 1.09%
SELECT region, count(*) AS n, exph_quantile(exph(ttft_s), 0.99) AS p99_s, max(ttft_s) AS worst_s
FROM ttft
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP) AND measured_at = 'server'
GROUP BY region
ORDER BY region
