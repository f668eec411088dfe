SELECT r.model, count(DISTINCT r.trace_id) AS calls, sum(t."count") AS tokens, avg(t.device_us) AS device_us
FROM requests AS r
JOIN tokens AS t ON t.trace_id = r.trace_id
WHERE r.measured_at = 'server' AND r.queue_s > 2.0
GROUP BY r.model
ORDER BY r.model
