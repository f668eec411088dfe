SELECT date_trunc('minute', time) AS minute, model, avg(ttft_s) AS mean_s, max(ttft_s) AS worst_s
FROM requests
WHERE measured_at = 'server'
GROUP BY 1, model
ORDER BY 1, model
