SELECT g.region, count(*) AS calls, avg(g.e2e_s - s.e2e_s) AS overhead_s
FROM requests AS g
JOIN requests AS s ON s.trace_id = g.trace_id
WHERE g.measured_at = 'gateway' AND s.measured_at = 'server'
GROUP BY g.region
ORDER BY g.region
