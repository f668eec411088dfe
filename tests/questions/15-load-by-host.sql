-- question: How many calls run and wait on each replica, and how full is its KV cache?
-- asked by: sre
SELECT host_id, max(running) AS running, avg(waiting) AS waiting, max(kv_usage) AS kv_usage
FROM devices
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP) AND kind = 'engine'
GROUP BY host_id
ORDER BY host_id
