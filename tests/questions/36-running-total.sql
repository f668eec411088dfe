-- question: How many tokens had left by the end of each minute?
-- asked by: analyst
WITH minutes AS (
  SELECT time_bucket('1 minute', time) AS minute, sum("count") AS tokens FROM tokens WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP) GROUP BY minute
)
SELECT minute, sum(tokens) OVER (ORDER BY minute) AS so_far FROM minutes ORDER BY minute
