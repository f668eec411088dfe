-- question: What p95 to the first token do the engines' own exponential histograms tell?
-- asked by: sre
-- tolerance: p95_s 4.4%
WITH sent AS (
  SELECT region, exph_merge(exph_from_otel(scale, zero_count, zero_threshold, positive_offset, positive_counts, negative_counts,
    sum, min, max)) AS h
  FROM histograms
  WHERE name = 'server.ttft.exponential' AND temporality = 'delta'
  GROUP BY region
)
SELECT region, h['count'] AS n, exph_quantile(h, 0.95) AS p95_s, h['max'] AS worst_s, exph_error(h) AS within
FROM sent
ORDER BY region
