WITH samples AS (
  SELECT CAST(time AS BIGINT) AS at, region, host_id, host_type, service, device, kind, boundary, energy_method, confidence, power_w, energy_j,
    lag(CAST(time AS BIGINT)) OVER one AS at_before,
    lag(power_w) OVER one AS power_before,
    lag(energy_j) OVER one AS energy_before,
    -- a counter that started anew says nothing about the time before
    energy_start_time IS NOT DISTINCT FROM lag(energy_start_time) OVER one AS same_counter
  FROM devices
  WHERE host_id IS NOT NULL AND (energy_j IS NOT NULL OR power_w IS NOT NULL)
  WINDOW one AS (PARTITION BY host_id, service, kind, device, boundary, energy_j IS NULL ORDER BY time)
),
steps AS (
  SELECT (at - 1) / 60000000 AS minute, at, at_before, region, host_id, host_type, service, kind, device, energy_j IS NOT NULL AS is_counter,
    coalesce(boundary, 'unknown') AS boundary, coalesce(confidence, 'measured') AS confidence,
    CASE WHEN energy_j IS NOT NULL THEN coalesce(energy_method, 'energy_counter') ELSE coalesce(energy_method, 'integrated_power') END AS method,
    CASE
      WHEN energy_j IS NULL THEN (power_w + power_before) / 2.0 * CAST(at - at_before AS DOUBLE) / 1000000.0
      WHEN same_counter AND energy_j >= energy_before THEN energy_j - energy_before
    END AS joules
  FROM samples
  WHERE at_before IS NOT NULL AND at - at_before <= 120000000
),
metered AS (
  SELECT minute, host_id, device, boundary, method, confidence, max(region) AS region, max(host_type) AS host_type,
    min(at_before) AS from_us, max(at) AS to_us, sum(joules) AS joules,
    -- a device that several exporters meter, or whose counter and power come in samples of their own, is counted once, by a counter
    rank() OVER (PARTITION BY minute, host_id, kind, device, boundary ORDER BY is_counter DESC, service) AS choice
  FROM steps
  WHERE joules IS NOT NULL
  GROUP BY minute, host_id, service, kind, device, boundary, is_counter, method, confidence
),
minutes AS (
  SELECT minute, host_id, boundary, max(region) AS region, max(host_type) AS host_type,
    min(from_us) AS from_us, max(to_us) AS to_us, sum(joules) AS joules,
    count(DISTINCT device) AS devices,
    string_agg(DISTINCT method, ', ' ORDER BY method) AS method,
    max(CASE confidence WHEN 'assumed' THEN 3 WHEN 'estimated' THEN 2 WHEN 'measured' THEN 0 ELSE 1 END) AS doubt,
    max(CASE WHEN confidence NOT IN ('assumed', 'estimated', 'measured') THEN confidence END) AS other_confidence,
    -- of several boundaries on one host the widest is the host's energy; adding them would count chips twice
    row_number() OVER (
      PARTITION BY minute, host_id
      ORDER BY CASE boundary WHEN 'facility' THEN 0 WHEN 'wall' THEN 1 WHEN 'node' THEN 2 WHEN 'board' THEN 3 WHEN 'chip' THEN 4 ELSE 5 END
    ) AS place
  FROM metered
  WHERE choice = 1
  GROUP BY minute, host_id, boundary
)
SELECT arrow_cast(minute * 60000000, 'Timestamp(Microsecond, Some("UTC"))') AS time, region, CAST(NULL AS VARCHAR) AS model,
  host_id, host_type, joules, devices, boundary, method,
  CASE doubt WHEN 3 THEN 'assumed' WHEN 2 THEN 'estimated' WHEN 0 THEN 'measured' ELSE other_confidence END AS confidence,
  minute, from_us, to_us
FROM minutes
WHERE place = 1
