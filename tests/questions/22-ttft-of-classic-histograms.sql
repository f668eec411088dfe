-- question: Between what does p95 to the first token lie, by the engines' classic histograms?
-- asked by: sre
WITH sent AS (
  SELECT region, buckets_merge(bounds, counts) AS h
  FROM histograms
  WHERE name = 'server.ttft.classic' AND temporality = 'delta'
  GROUP BY region
)
SELECT region, buckets_quantile(h['bounds'], h['counts'], 0.95) AS p95_s
FROM sent
ORDER BY region
