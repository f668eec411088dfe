-- question: How much does the gateway add to the first token?
-- asked by: sre
-- tolerance: added_s 0.0001%
SELECT s.region, count(*) AS calls, avg(g.ttft_s - s.ttft_s) AS added_s
FROM ttft g
JOIN ttft s ON s.trace_id = g.trace_id AND s.measured_at = 'server'
WHERE g.measured_at = 'gateway' AND g.time >= CAST($since AS TIMESTAMP) AND g.time < CAST($until AS TIMESTAMP)
GROUP BY s.region
ORDER BY s.region
