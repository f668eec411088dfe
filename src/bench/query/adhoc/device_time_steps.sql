SELECT model, count(*) AS steps, avg(step_us) AS mean_us, max(step_us) AS most_us
FROM (
  SELECT model, "index" AS place,
    CAST(device_us AS BIGINT) - lag(device_us) OVER (PARTITION BY trace_id, choice ORDER BY "index") AS step_us
  FROM tokens
  WHERE tenant = 'team-007'
) AS steps
WHERE place > 0
GROUP BY model
ORDER BY model
