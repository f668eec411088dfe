SELECT *
FROM requests
WHERE trace_id = '$trace_id'
ORDER BY measured_at
