SELECT d.time, d.utilization, d.power_w, d.kv_usage, d.running, d.waiting, h.tokens, h.requests
FROM devices_1m AS d
LEFT JOIN hosts_1m AS h ON h.host_id = d.host_id AND h.time = d.time
WHERE d.host_id = '$host_id' AND d.time >= TIMESTAMP '2026-07-08 07:00:00' AND d.time < TIMESTAMP '2026-07-08 13:00:00'
ORDER BY d.time
