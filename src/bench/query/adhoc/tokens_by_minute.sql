SELECT date_trunc('minute', time) AS minute, sum("count") AS tokens
FROM tokens
GROUP BY 1
ORDER BY 1
