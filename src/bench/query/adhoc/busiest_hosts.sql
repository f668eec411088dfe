SELECT host_id, sum(device_us) AS device_us, sum("count") AS tokens
FROM tokens
GROUP BY host_id
ORDER BY device_us DESC, host_id
LIMIT 10
