SELECT model, host_type, count(*) AS requests
FROM requests
WHERE model LIKE '%70b%' AND host_id LIKE '%ff%'
GROUP BY model, host_type
ORDER BY model, host_type
