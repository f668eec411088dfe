SELECT time, "index", batch_size, device_us, stall
FROM tokens
WHERE trace_id = '$trace_id'
ORDER BY "index"
