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
    min(CASE WHEN joules IS NOT NULL THEN at_before END) AS from_us, max(CASE WHEN joules IS NOT NULL THEN at END) AS to_us,
    sum(joules) AS joules,
    sum(CASE WHEN joules IS NOT NULL THEN at - at_before END) AS covered_us,
    max(CASE WHEN joules IS NOT NULL THEN at - at_before END) AS step_us,
    count(*) - count(joules) AS resets,
    -- a device that several exporters meter, or whose counter and power come in samples of their own, is counted once, by a counter
    rank() OVER (PARTITION BY minute, host_id, kind, device, boundary ORDER BY is_counter DESC, service) AS choice
  FROM steps
  GROUP BY minute, host_id, service, kind, device, boundary, is_counter, method, confidence
  HAVING count(joules) > 0
),
minutes AS (
  SELECT minute, host_id, boundary, max(region) AS region, max(host_type) AS host_type,
    min(from_us) AS from_us, max(to_us) AS to_us, sum(joules) AS joules,
    count(DISTINCT device) AS devices,
    string_agg(DISTINCT method, ', ' ORDER BY method) AS method,
    max(CASE confidence WHEN 'assumed' THEN 3 WHEN 'estimated' THEN 2 WHEN 'measured' THEN 0 ELSE 1 END) AS doubt,
    max(CASE WHEN confidence NOT IN ('assumed', 'estimated', 'measured') THEN confidence END) AS other_confidence,
    -- the device that was watched least
    least(CAST(min(covered_us) AS DOUBLE) / 60000000.0, 1.0) AS coverage,
    CAST(max(greatest(step_us, from_us - minute * 60000000, (minute + 1) * 60000000 - to_us)) AS DOUBLE) / 1000000.0 AS largest_gap_s,
    sum(resets) AS resets,
    -- of several boundaries on one host the widest is the host's energy; adding them would count chips twice
    row_number() OVER (
      PARTITION BY minute, host_id
      ORDER BY CASE boundary WHEN 'facility' THEN 0 WHEN 'wall' THEN 1 WHEN 'node' THEN 2 WHEN 'board' THEN 3 WHEN 'chip' THEN 4 ELSE 5 END
    ) AS place
  FROM metered
  WHERE choice = 1
  GROUP BY minute, host_id, boundary
),
measured AS (
  SELECT minute, region, host_id, host_type, joules, devices, boundary, method,
    CASE doubt WHEN 3 THEN 'assumed' WHEN 2 THEN 'estimated' WHEN 0 THEN 'measured' ELSE other_confidence END AS confidence,
    from_us, to_us, coverage, largest_gap_s,
    CASE WHEN resets > 0 THEN 'a counter started anew' WHEN coverage < 0.9 THEN 'samples cover too little of the minute' END AS flaw
  FROM minutes
  WHERE place = 1
),
ran AS (
  -- share of time in which the engines of a host ran, each as much as it holds of the host
  SELECT minute, host_id, max(region) AS region, max(host_type) AS host_type, min(from_us) AS from_us, max(to_us) AS to_us, max(wall_us) AS wall_us,
    sum(CAST(chip_parts AS DOUBLE) * CAST(busy_us + padding_us AS DOUBLE) / CAST(wall_us AS DOUBLE)) / sum(CAST(chip_parts AS DOUBLE)) AS duty
  FROM engine_minutes
  WHERE wall_us > 0
  GROUP BY minute, host_id
),
every AS (
  SELECT minute, region, host_id, host_type, joules, devices, boundary, method, confidence, from_us, to_us, coverage, largest_gap_s, flaw,
    CAST(NULL AS DOUBLE) AS duty, CAST(NULL AS BIGINT) AS wall_us
  FROM measured
  UNION ALL
  SELECT minute, region, host_id, host_type, NULL, CAST(0 AS BIGINT), NULL, 'tdp', NULL, from_us, to_us,
    least(CAST(wall_us AS DOUBLE) / 60000000.0, 1.0), NULL, 'no meter: watts of the power model', duty, wall_us
  FROM ran
),
beside AS (
  -- a metered step is at most two minutes long, and its joules are in the minute in which it ends: what meters cover of the minutes before,
  -- in and after this one
  SELECT *,
    max(CASE WHEN joules IS NOT NULL THEN to_us END) OVER (PARTITION BY host_id ORDER BY minute RANGE BETWEEN 2 PRECEDING AND 1 PRECEDING) AS until_us,
    min(CASE WHEN joules IS NOT NULL THEN from_us END) OVER (PARTITION BY host_id ORDER BY minute RANGE BETWEEN 1 FOLLOWING AND 2 FOLLOWING) AS since_us,
    min(CASE WHEN joules IS NOT NULL THEN from_us END) OVER (PARTITION BY host_id, minute) AS here_from_us,
    max(CASE WHEN joules IS NOT NULL THEN to_us END) OVER (PARTITION BY host_id, minute) AS here_to_us
  FROM every
),
known AS (
  SELECT * FROM beside
  -- what a meter covers, if only in part, is not modelled beside it
  WHERE joules IS NOT NULL
    OR NOT (coalesce(until_us > from_us, FALSE) OR coalesce(since_us < to_us, FALSE) OR coalesce(here_from_us < to_us AND here_to_us > from_us, FALSE))
),
modelled AS (
  SELECT k.minute, k.region, k.host_id, k.host_type,
    coalesce(k.joules,
      coalesce(load_watts(m.load, m.load_w, least(k.duty, 1.0)), m.idle_w + (m.max_w - m.idle_w) * least(k.duty, 1.0)) * CAST(k.wall_us AS DOUBLE) / 1000000.0
    ) AS joules,
    k.devices, coalesce(k.boundary, m.boundary) AS boundary,
    CASE WHEN k.joules IS NULL AND m.load IS NOT NULL THEN 'load_curve' ELSE k.method END AS method, coalesce(k.confidence, m.confidence) AS confidence, k.from_us, k.to_us,
    k.coverage, k.largest_gap_s, k.flaw, m.idle_w, k.joules IS NULL AS is_modelled, m.list, m.effective_from, m.source
  FROM known AS k
  LEFT JOIN power_models AS m ON m.device = k.host_type AND CAST(m.effective_from AS BIGINT) <= k.minute * 60000000
    AND (m.effective_to IS NULL OR CAST(m.effective_to AS BIGINT) > k.minute * 60000000)
    AND (m.boundary = k.boundary OR (k.boundary IS NULL AND (m.load IS NOT NULL OR (m.idle_w IS NOT NULL AND m.max_w IS NOT NULL))))
),
chosen AS (
  -- a meter before a model, the widest boundary, the newest model
  SELECT *, row_number() OVER (
      PARTITION BY minute, host_id
      ORDER BY is_modelled,
        CASE boundary WHEN 'facility' THEN 0 WHEN 'wall' THEN 1 WHEN 'node' THEN 2 WHEN 'board' THEN 3 WHEN 'chip' THEN 4 ELSE 5 END,
        -- an operator's own model before what comes with Tokenwatt
        list IS NULL, effective_from DESC NULLS LAST, source
    ) AS choice
  FROM modelled
  WHERE joules IS NOT NULL
)
SELECT arrow_cast(minute * 60000000, 'Timestamp(Microsecond, Some("UTC"))') AS time, region, CAST(NULL AS VARCHAR) AS model,
  host_id, host_type, joules, devices, boundary, method, confidence, minute, from_us, to_us, coverage, largest_gap_s, flaw IS NULL AS is_valid,
  flaw, idle_w
FROM chosen
WHERE choice = 1
