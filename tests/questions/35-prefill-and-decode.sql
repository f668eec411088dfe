-- question: How is device time divided between prompts and answers?
-- asked by: analyst
SELECT model, sum(device_us_prefill) AS prefill_us, sum(device_us_decode) AS decode_us
FROM calls
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP)
GROUP BY model
ORDER BY model
