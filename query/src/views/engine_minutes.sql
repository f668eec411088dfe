WITH samples AS (
  SELECT CAST(time AS BIGINT) AS at, region, host_id, host_type, instance, model, accelerator, chips, environment, cluster, pool,
    busy_us, coalesce(padding_us, 0) AS padding_us,
    lag(CAST(time AS BIGINT)) OVER replica AS at_before,
    lag(busy_us) OVER replica AS busy_before,
    lag(coalesce(padding_us, 0)) OVER replica AS padding_before
  FROM devices
  WHERE kind = 'engine' AND busy_us IS NOT NULL
  WINDOW replica AS (PARTITION BY host_id, instance ORDER BY time, busy_us)
),
steps AS (
  -- the sample of the last step before a minute's end closes that minute
  SELECT (at - 1) / 60000000 AS minute, at, at_before, busy_us - busy_before AS busy_us, padding_us - padding_before AS padding_us,
    region, host_id, host_type, instance, model, accelerator, chips, environment, cluster, pool
  FROM samples
  -- a counter that fell is another engine, and nobody vouches for what lies in a longer silence
  WHERE busy_us >= busy_before AND padding_us >= padding_before AND at - at_before <= 120000000
),
minutes AS (
  SELECT arrow_cast(minute * 60000000, 'Timestamp(Microsecond, Some("UTC"))') AS time,
    max(region) AS region, max(model) AS model, host_id, max(host_type) AS host_type, instance,
    max(accelerator) AS accelerator, max(chips) AS chips, max(environment) AS environment, max(cluster) AS cluster, max(pool) AS pool,
    minute, min(at_before) AS from_us, max(at) AS to_us,
    sum(at - at_before) AS wall_us, sum(busy_us) AS busy_us, sum(padding_us) AS padding_us
  FROM steps
  GROUP BY minute, host_id, instance
),
sliced AS (
  -- a slice of a GPU (MIG) is named after its profile, which begins with how many of the GPU's sevenths it is, of an A30's quarters
  SELECT *, try_cast(split_part(split_part(replace(accelerator, 'MIG-', 'MIG '), 'MIG ', 2), 'g.', 1) AS BIGINT) AS slice FROM minutes
)
SELECT time, region, model, host_id, host_type, instance, accelerator, chips, environment, cluster, pool, minute, from_us, to_us,
  wall_us, busy_us, padding_us,
  CASE
    WHEN slice BETWEEN 1 AND 4 AND accelerator LIKE '%A30%' THEN slice * 7
    WHEN slice BETWEEN 1 AND 7 THEN slice * 4
    ELSE greatest(coalesce(chips, CAST(1 AS BIGINT)), CAST(1 AS BIGINT)) * 28
  END AS chip_parts
FROM sliced
