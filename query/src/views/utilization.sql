WITH sampled AS (
  SELECT (CAST(time AS BIGINT) - 1) / 60000000 AS minute, host_id, max(region) AS region, max(host_type) AS host_type,
    avg(CASE WHEN utilization_kind = 'allocated' THEN utilization END) AS allocated,
    avg(CASE WHEN kind = 'accelerator' AND coalesce(utilization_kind, 'executing') = 'executing' THEN utilization END) AS executing,
    avg(coalesce(tensor_active, CASE WHEN utilization_kind = 'tensor' THEN utilization END)) AS tensor,
    avg(CASE WHEN utilization_kind = 'useful' THEN utilization END) AS useful
  FROM devices
  WHERE host_id IS NOT NULL
  GROUP BY 1, 2
),
sizes AS (
  SELECT host_id, max(chips) AS chips FROM nodes GROUP BY host_id
),
held AS (
  -- replicas share a host; the chips of one that does not say how many are unknown, and so is the sum
  SELECT minute, host_id,
    CASE WHEN count(CASE WHEN chips IS NOT NULL OR accelerator LIKE '%MIG%' THEN 1 END) = count(*) THEN CAST(sum(chip_parts) AS DOUBLE) / 28.0 END AS chips
  FROM engine_minutes
  GROUP BY minute, host_id
)
SELECT arrow_cast(coalesce(e.minute, s.minute) * 60000000, 'Timestamp(Microsecond, Some("UTC"))') AS time,
  coalesce(e.region, s.region) AS region, e.model, coalesce(e.host_id, s.host_id) AS host_id,
  coalesce(e.host_type, s.host_type) AS host_type, e.instance, e.accelerator, e.chips,
  coalesce(s.allocated, h.chips / CAST(n.chips AS DOUBLE)) AS allocated,
  coalesce(s.executing, CAST(e.busy_us + e.padding_us AS DOUBLE) / CAST(e.wall_us AS DOUBLE)) AS executing,
  s.tensor, s.useful,
  e.wall_us, e.busy_us, e.padding_us, e.wall_us - e.busy_us - e.padding_us AS idle_us,
  CASE WHEN s.executing IS NOT NULL THEN 'device' WHEN e.wall_us IS NOT NULL THEN 'engine counters' END AS method,
  CASE WHEN e.chips IS NOT NULL OR e.accelerator LIKE '%MIG%' THEN CAST(e.chip_parts AS DOUBLE) / 28.0 END AS chips_held
FROM engine_minutes AS e
FULL JOIN sampled AS s ON s.minute = e.minute AND s.host_id = e.host_id
LEFT JOIN held AS h ON h.minute = e.minute AND h.host_id = e.host_id
LEFT JOIN sizes AS n ON n.host_id = e.host_id
WHERE coalesce(e.wall_us, 1) > 0
