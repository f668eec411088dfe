-- question: Which replicas stood still for more than half of the time?
-- asked by: sre
SELECT host_id, CAST(sum(idle_us) AS DOUBLE) / sum(wall_us) AS idle_share
FROM replica_minutes
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP)
GROUP BY host_id
HAVING sum(idle_us) * 2 > sum(wall_us)
ORDER BY host_id
