-- question: How long are the gaps between tokens, by what caused them?
-- asked by: sre
-- tolerance: p50_s 1.09%, p99_s 1.09%
SELECT stall, count(*) AS n, exph_quantile(exph(gap_s), 0.5) AS p50_s, exph_quantile(exph(gap_s), 0.99) AS p99_s
FROM token_gaps
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP) AND gap_s IS NOT NULL
GROUP BY stall
ORDER BY stall
