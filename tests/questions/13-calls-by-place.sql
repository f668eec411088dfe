-- question: How many calls does each place report, and how many are there?
-- asked by: sre
SELECT measured_at, count(*) AS rows, (SELECT count(*) FROM calls WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP)) AS calls
FROM requests
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP)
GROUP BY measured_at
ORDER BY measured_at
