WITH parts AS (
  SELECT r.time, r.region, r.model, r.environment, r.cluster, r.pool, r.host_id, r.host_type, r.instance, r.part, r.weight, r.device_us,
    r.cost_usd, r.effective_cost_usd, r.billed_cost_usd, r.list_cost_usd, r.contracted_cost_usd, r.basis, r.method, r.price_as_of, r.price_confidence,
    CAST(r.chip_parts AS DOUBLE) AS chips, CAST(r.weight AS DOUBLE) AS part_us,
    e.joules AS host_j, e.boundary, e.method AS energy_method, e.confidence AS energy_confidence, e.coverage, e.is_valid, e.idle_w,
    CAST(sum(r.weight) OVER one_replica AS DOUBLE) AS all_us,
    CAST(sum(CASE WHEN r.part = 'idle' THEN r.weight ELSE 0 END) OVER one_replica AS DOUBLE) AS idle_us,
    r.instance IS NOT NULL OR count(*) OVER one_replica > 1 AS has_time
  FROM replica_cost AS r
  LEFT JOIN host_energy AS e ON e.time = r.time AND e.host_id = r.host_id
  WINDOW one_replica AS (PARTITION BY r.time, r.host_id, r.instance)
),
shares AS (
  -- of a host's joules a replica has as much as of its chips, a slice of one as its part; one without any time has none
  SELECT *, CASE WHEN all_us > 0.0 THEN host_j * chips
      / sum(CASE WHEN all_us > 0.0 THEN chips * part_us / all_us END) OVER (PARTITION BY time, host_id) END AS replica_j,
    chips / sum(CASE WHEN all_us > 0.0 THEN chips * part_us / all_us END) OVER (PARTITION BY time, host_id) AS held
  FROM parts
),
rests AS (
  SELECT *, CASE
      -- at rest it draws what its power model says, and never more than on the average
      WHEN idle_w IS NOT NULL AND has_time AND idle_us < all_us THEN least(replica_j * idle_us / all_us, idle_w * held * idle_us / 1000000.0)
      ELSE replica_j * idle_us / all_us
    END AS idle_j
  FROM shares
)
SELECT time, region, model, environment, cluster, pool, host_id, host_type, instance, part, weight, device_us,
  cost_usd, effective_cost_usd, billed_cost_usd, basis, method, price_as_of, price_confidence,
  CASE WHEN part = 'idle' OR replica_j IS NULL THEN idle_j ELSE coalesce((replica_j - idle_j) * part_us / nullif(all_us - idle_us, 0.0), 0.0) END AS joules,
  boundary, energy_method, energy_confidence, coverage, is_valid,
  CASE WHEN idle_w IS NOT NULL AND has_time AND idle_us < all_us THEN 'idle by the power model, the rest by time' ELSE 'by time' END AS split,
  coalesce(instance, '') AS replica, list_cost_usd, contracted_cost_usd
FROM rests
