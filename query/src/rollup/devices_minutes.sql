WITH samples AS (
  SELECT CAST(time AS BIGINT) AS at, region, environment, cluster, pool, host_id, host_type, service, instance, device, kind,
    utilization, utilization_kind, power_w, energy_j, boundary, energy_method, running, waiting, kv_usage,
    lag(CAST(time AS BIGINT)) OVER one AS at_before, lag(power_w) OVER one AS power_before, lag(energy_j) OVER one AS energy_before,
    -- a counter that started anew says nothing about the time before
    energy_start_time IS NOT DISTINCT FROM lag(energy_start_time) OVER one AS same_counter
  FROM devices
  WHERE host_id IS NOT NULL
  WINDOW one AS (PARTITION BY host_id, service, instance, kind, device, utilization_kind, boundary, energy_j IS NULL ORDER BY time)
),
steps AS (
  SELECT *, (at - 1) / 60000000 AS minute,
    -- nobody vouches for what lies in a longer silence
    CASE WHEN at - at_before <= 120000000 THEN at - at_before END AS step_us,
    CASE
      WHEN at - at_before > 120000000 THEN NULL
      WHEN energy_j IS NULL THEN (power_w + power_before) / 2.0 * CAST(at - at_before AS DOUBLE) / 1000000.0
      WHEN same_counter AND energy_j >= energy_before THEN energy_j - energy_before
    END AS joules
  FROM samples
),
series AS (
  SELECT minute, host_id, service, instance, kind, device, utilization_kind, boundary, energy_j IS NOT NULL AS is_counter,
    CASE WHEN max(energy_method) IS NOT NULL THEN max(energy_method) WHEN count(energy_j) > 0 THEN 'energy_counter'
      WHEN count(power_w) > 0 THEN 'integrated_power' END AS energy_method,
    max(region) AS region, max(environment) AS environment, max(cluster) AS cluster, max(pool) AS pool, max(host_type) AS host_type,
    count(*) AS samples, avg(utilization) AS utilization, avg(power_w) AS power_w, sum(joules) AS joules,
    least(coalesce(CAST(sum(step_us) AS DOUBLE), 0.0) / 60000000.0, 1.0) AS coverage,
    CAST(max(step_us) AS DOUBLE) / 1000000.0 AS gap_s,
    avg(CAST(running AS DOUBLE)) AS running, avg(CAST(waiting AS DOUBLE)) AS waiting, avg(kv_usage) AS kv_usage,
    count(CASE WHEN step_us IS NOT NULL AND joules IS NULL THEN 1 END) AS resets
  FROM steps
  GROUP BY minute, host_id, service, instance, kind, device, utilization_kind, boundary, energy_j IS NOT NULL
),
ranked AS (
  SELECT *, CASE WHEN kind = 'engine' THEN instance END AS replica,
    CASE energy_method WHEN 'energy_counter' THEN 1 WHEN 'integrated_power' THEN 2 WHEN 'percent_of_max' THEN 3 WHEN 'load_curve' THEN 4 ELSE 5 END AS rung
  FROM series
),
one_device AS (
  -- a device is counted once, however many processes watch it: its energy by the one that `host_energy` takes
  SELECT *, row_number() OVER (
      PARTITION BY minute, host_id, kind, device, replica, utilization_kind, boundary
      ORDER BY joules IS NULL, rung, is_counter DESC, resets > 0, service, instance
    ) AS choice,
    row_number() OVER (
      PARTITION BY minute, host_id, kind, device, replica, boundary
      ORDER BY joules IS NULL, rung, is_counter DESC, resets > 0, service, instance, utilization_kind
    ) = 1 AS is_meter
  FROM ranked
),
told AS (
  SELECT *, CASE WHEN is_meter THEN power_w END AS counted_w, CASE WHEN is_meter THEN joules END AS counted_j,
    CASE WHEN is_meter THEN energy_method END AS counted_method
  FROM one_device
  WHERE choice = 1
)
SELECT arrow_cast(minute * 60000000, 'Timestamp(Microsecond, Some("UTC"))') AS time, max(region) AS region, CAST(NULL AS VARCHAR) AS model,
  max(environment) AS environment, max(cluster) AS cluster, max(pool) AS pool, host_id, max(host_type) AS host_type,
  kind, count(*) AS devices, sum(samples) AS samples, avg(utilization) AS utilization, utilization_kind,
  sum(counted_w) AS power_w, sum(counted_j) AS energy_j, boundary, counted_method AS energy_method, avg(coverage) AS coverage, max(gap_s) AS gap_s,
  sum(running) AS running, sum(waiting) AS waiting, avg(kv_usage) AS kv_usage
FROM told
GROUP BY minute, host_id, kind, utilization_kind, boundary, counted_method
