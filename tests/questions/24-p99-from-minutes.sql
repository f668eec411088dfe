-- question: Is p99 of the whole time the same when it is made of minutes?
-- asked by: sre
-- tolerance: p99_s 1.09%
WITH minutes AS (
  SELECT region, time_bucket('1 minute', time) AS minute, exph(e2e_s) AS h FROM latency WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP) AND measured_at = 'server'
  GROUP BY region, minute
)
SELECT region, exph_quantile(exph_merge(h), 0.99) AS p99_s, CAST(sum(h['count']) AS BIGINT) AS n
FROM minutes
GROUP BY region
ORDER BY region
