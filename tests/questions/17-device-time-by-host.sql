-- question: What did each replica do with its time?
-- asked by: sre
SELECT host_id, sum(requests_us) AS requests_us, sum(padding_us) AS padding_us, sum(idle_us) AS idle_us, sum(wall_us) AS wall_us
FROM replica_minutes
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP)
GROUP BY host_id
ORDER BY host_id
