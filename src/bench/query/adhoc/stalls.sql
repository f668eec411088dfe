SELECT stall, model, sum("count") AS tokens, avg(device_us) AS device_us
FROM tokens
WHERE stall IS NOT NULL
GROUP BY stall, model
ORDER BY stall, model
