SELECT date_trunc('hour', time) AS hour, region, host_type, sum(power_w) / 60.0 AS power_w, sum(energy_j) AS energy_j
FROM devices_1m
GROUP BY 1, region, host_type
ORDER BY 1, region, host_type
