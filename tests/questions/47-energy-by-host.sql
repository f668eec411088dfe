-- question: How much energy does each host use, and how was it measured?
-- asked by: finops
SELECT host_id, boundary, method, sum(joules) AS joules
FROM host_energy
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP)
GROUP BY host_id, boundary, method
ORDER BY host_id
