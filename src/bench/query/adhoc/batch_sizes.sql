SELECT batch_size, count(*) AS token_rows, min(device_us) AS least_us, max(device_us) AS most_us
FROM tokens
GROUP BY batch_size
ORDER BY batch_size
