-- question: How busy are the accelerators of each host?
-- asked by: sre
SELECT host_id, avg(executing) AS executing, count(*) AS minutes
FROM utilization
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP)
GROUP BY host_id
ORDER BY host_id
