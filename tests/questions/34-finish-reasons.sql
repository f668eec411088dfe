-- question: Why do answers end?
-- asked by: analyst
SELECT model, finish_reason, count(*) AS calls
FROM calls
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP)
GROUP BY model, finish_reason
ORDER BY model, finish_reason NULLS LAST
