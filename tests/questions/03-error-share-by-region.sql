-- question: What share of calls fails in each region?
-- asked by: sre
SELECT region, count(*) AS calls, count(*) FILTER (WHERE status = 'error') AS failed,
  avg(CASE WHEN status = 'error' THEN 1.0 ELSE 0.0 END) AS share
FROM calls
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP)
GROUP BY region
ORDER BY region
