SELECT CAST(floor(utilization * 20.0) AS BIGINT) AS bucket, count(*) AS host_minutes, avg(power_w) AS power_w
FROM devices_1m
GROUP BY 1
ORDER BY 1
