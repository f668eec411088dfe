-- question: What does each region cost, and what of it is idle?
-- asked by: finops
-- tolerance: usd 0.0001%, requests_usd 0.0001%, padding_usd 0.0001%, idle_usd 0.0001%
SELECT region, sum(cost_usd) AS usd, sum(requests_cost_usd) AS requests_usd, sum(padding_cost_usd) AS padding_usd,
  sum(idle_cost_usd) AS idle_usd
FROM cost_per_region
WHERE time >= CAST($since AS TIMESTAMP) AND time < CAST($until AS TIMESTAMP) AND cost_usd IS NOT NULL
GROUP BY region
ORDER BY region
