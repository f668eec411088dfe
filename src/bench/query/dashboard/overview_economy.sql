WITH used AS (
  SELECT region, sum(utilization * devices) / sum(devices) AS utilization, sum(energy_j) AS joules
  FROM devices_1m
  WHERE kind = 'accelerator' AND time >= TIMESTAMP '2026-07-08 12:00:00' AND time < TIMESTAMP '2026-07-08 13:00:00'
  GROUP BY region
),
spent AS (
  SELECT region, sum(effective_cost) AS usd, sum(tokens) AS tokens
  FROM costs_1h
  WHERE time >= TIMESTAMP '2026-07-08 12:00:00' AND time < TIMESTAMP '2026-07-08 13:00:00'
  GROUP BY region
)
SELECT used.region, utilization, joules / tokens AS joules_per_token, CAST(usd AS DOUBLE) / tokens * 1000000 AS usd_per_million
FROM used
JOIN spent ON spent.region = used.region
ORDER BY used.region
