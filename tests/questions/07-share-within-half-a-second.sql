-- question: What share of calls gets its first token within half a second?
-- asked by: sre
SELECT region, avg(CASE WHEN ttft_s <= 0.5 THEN 1.0 ELSE 0.0 END) AS share
FROM ttft
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP) AND measured_at = 'server'
GROUP BY region
ORDER BY region
