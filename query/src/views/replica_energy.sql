WITH parts AS (
  SELECT r.time, r.region, r.model, r.host_id, r.host_type, r.instance, r.part, CAST(r.weight AS DOUBLE) AS weight, CAST(r.chips AS DOUBLE) AS chips,
    e.joules, e.boundary, e.method, e.confidence, e.coverage, e.is_valid, e.idle_w,
    CAST(sum(r.weight) OVER one_replica AS DOUBLE) AS all_us,
    CAST(sum(CASE WHEN r.part = 'idle' THEN r.weight ELSE 0 END) OVER one_replica AS DOUBLE) AS idle_us,
    r.instance IS NOT NULL OR count(*) OVER one_replica > 1 AS has_time
  FROM replica_cost AS r
  JOIN host_energy AS e ON e.time = r.time AND e.host_id = r.host_id
  WINDOW one_replica AS (PARTITION BY r.time, r.host_id, r.instance)
),
shares AS (
  -- of a host's joules a replica has as much as of its chips
  SELECT *, chips / sum(chips * weight / all_us) OVER (PARTITION BY time, host_id) AS held
  FROM parts
  WHERE all_us > 0.0
),
rests AS (
  SELECT *, joules * held AS replica_j,
    CASE
      -- at rest it draws what its power model says, and never more than on the average
      WHEN idle_w IS NOT NULL AND has_time AND idle_us < all_us THEN least(joules * held * idle_us / all_us, idle_w * held * idle_us / 1000000.0)
      ELSE joules * held * idle_us / all_us
    END AS idle_j
  FROM shares
)
SELECT time, region, model, host_id, host_type, instance, part,
  CASE WHEN part = 'idle' THEN idle_j ELSE coalesce((replica_j - idle_j) * weight / nullif(all_us - idle_us, 0.0), 0.0) END AS joules,
  boundary, method, confidence, coverage, is_valid,
  CASE WHEN idle_w IS NOT NULL AND has_time AND idle_us < all_us THEN 'idle by the power model, the rest by time' ELSE 'by time' END AS split,
  coalesce(instance, '') AS replica
FROM rests
