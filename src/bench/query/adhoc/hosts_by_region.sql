SELECT region, count(DISTINCT host_id) AS hosts, max(power_w) AS most_w
FROM devices_1m
GROUP BY region
ORDER BY region
