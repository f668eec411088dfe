WITH samples AS (
  SELECT CAST(time AS BIGINT) AS at, region, host_id, host_type, service, instance, device, kind, boundary, energy_method, confidence, power_w, energy_j,
    lag(CAST(time AS BIGINT)) OVER one AS at_before,
    lag(power_w) OVER one AS power_before,
    lag(energy_j) OVER one AS energy_before,
    -- a counter that started anew says nothing about the time before
    energy_start_time IS NOT DISTINCT FROM lag(energy_start_time) OVER one AS same_counter
  FROM devices
  WHERE host_id IS NOT NULL AND (energy_j IS NOT NULL OR power_w IS NOT NULL)
  -- two processes that read one device have two counters
  WINDOW one AS (PARTITION BY host_id, service, instance, kind, device, boundary, energy_j IS NULL ORDER BY time)
),
steps AS (
  SELECT (at - 1) / 60000000 AS minute, at, at_before, region, host_id, host_type, service, instance, kind, device, energy_j IS NOT NULL AS is_counter,
    coalesce(boundary, 'unknown') AS boundary, coalesce(confidence, 'measured') AS confidence,
    CASE WHEN energy_j IS NOT NULL THEN coalesce(energy_method, 'energy_counter') ELSE coalesce(energy_method, 'integrated_power') END AS method,
    CASE
      WHEN energy_j IS NULL THEN (power_w + power_before) / 2.0 * CAST(at - at_before AS DOUBLE) / 1000000.0
      WHEN same_counter AND energy_j >= energy_before THEN energy_j - energy_before
    END AS joules
  FROM samples
  WHERE at_before IS NOT NULL AND at - at_before <= 120000000
),
series AS (
  SELECT minute, host_id, service, instance, kind, device, boundary, is_counter, max(region) AS region, max(host_type) AS host_type,
    max(method) AS method,
    max(CASE method WHEN 'energy_counter' THEN 1 WHEN 'integrated_power' THEN 2 WHEN 'percent_of_max' THEN 3 WHEN 'load_curve' THEN 4 ELSE 5 END) AS rung,
    max(CASE confidence WHEN 'assumed' THEN 3 WHEN 'estimated' THEN 2 WHEN 'measured' THEN 0 ELSE 1 END) AS doubt,
    max(CASE WHEN confidence NOT IN ('assumed', 'estimated', 'measured') THEN confidence END) AS other_confidence,
    min(CASE WHEN joules IS NOT NULL THEN at_before END) AS from_us, max(CASE WHEN joules IS NOT NULL THEN at END) AS to_us,
    sum(joules) AS joules,
    coalesce(sum(CASE WHEN joules IS NOT NULL THEN at - at_before END), 0) AS covered_us,
    max(CASE WHEN joules IS NOT NULL THEN at - at_before END) AS step_us,
    count(*) - count(joules) AS resets
  FROM steps
  GROUP BY minute, host_id, service, instance, kind, device, boundary, is_counter
),
metered AS (
  -- a device is counted once, however many processes meter it: by the highest rung, by a counter before power, by who saw no restart
  SELECT *, row_number() OVER (
      PARTITION BY minute, host_id, kind, device, boundary ORDER BY joules IS NULL, rung, is_counter DESC, resets > 0, service, instance
    ) AS choice
  FROM series
),
owned AS (
  SELECT host_id, max(chips) AS chips FROM nodes WHERE chips IS NOT NULL GROUP BY host_id
),
bounded AS (
  SELECT minute, host_id, boundary, max(region) AS region, max(host_type) AS host_type,
    min(from_us) AS from_us, max(to_us) AS to_us, sum(joules) AS joules,
    count(joules) AS devices, count(*) AS heard, count(CASE WHEN kind = 'accelerator' THEN 1 END) AS chips,
    string_agg(DISTINCT method, ', ' ORDER BY method) AS method, max(rung) AS rung, max(doubt) AS doubt, max(other_confidence) AS other_confidence,
    min(covered_us) AS covered_us,
    max(CASE WHEN joules IS NULL THEN 60000000 ELSE greatest(step_us, from_us - minute * 60000000, (minute + 1) * 60000000 - to_us) END) AS gap_us,
    sum(resets) AS resets,
    -- what was heard of in this minute or the one before
    max(count(*)) OVER (PARTITION BY host_id, boundary ORDER BY minute RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS known
  FROM metered
  WHERE choice = 1
  GROUP BY minute, host_id, boundary
),
minutes AS (
  SELECT b.*, b.known > b.heard OR (b.boundary IN ('chip', 'board') AND coalesce(o.chips > b.chips, FALSE)) AS lacks_devices,
    -- what was measured goes before what was not; of several boundaries the widest is the host's energy, adding them would count chips twice
    row_number() OVER (
      PARTITION BY b.minute, b.host_id
      ORDER BY b.joules IS NULL, greatest(b.rung, 2),
        CASE b.boundary WHEN 'facility' THEN 0 WHEN 'wall' THEN 1 WHEN 'node' THEN 2 WHEN 'board' THEN 3 WHEN 'chip' THEN 4 ELSE 5 END
    ) AS place
  FROM bounded AS b
  LEFT JOIN owned AS o ON o.host_id = b.host_id
),
measured AS (
  SELECT minute, region, host_id, host_type, joules, devices, boundary, method,
    CASE doubt WHEN 3 THEN 'assumed' WHEN 2 THEN 'estimated' WHEN 0 THEN 'measured' ELSE other_confidence END AS confidence,
    from_us, to_us,
    -- the device that was watched least
    CASE WHEN lacks_devices THEN 0.0 ELSE least(CAST(covered_us AS DOUBLE) / 60000000.0, 1.0) END AS coverage,
    CASE WHEN lacks_devices THEN 60.0 ELSE CAST(gap_us AS DOUBLE) / 1000000.0 END AS largest_gap_s,
    CASE WHEN resets > 0 THEN 'a counter started anew' WHEN lacks_devices THEN 'not all devices of the host were metered'
      WHEN covered_us < 54000000 THEN 'samples cover too little of the minute' END AS flaw
  FROM minutes
  WHERE place = 1 AND joules IS NOT NULL
),
gauged AS (
  -- engines that count no time say how many requests run
  SELECT CAST(time AS BIGINT) AS at, region, host_id, host_type, instance, chips, least(running, 1) AS runs,
    lag(CAST(time AS BIGINT)) OVER replica AS at_before, lag(least(running, 1)) OVER replica AS ran_before,
    max(busy_us) OVER (PARTITION BY host_id, instance) AS busy_us
  FROM devices
  WHERE kind = 'engine' AND host_id IS NOT NULL AND (running IS NOT NULL OR busy_us IS NOT NULL)
  WINDOW replica AS (PARTITION BY host_id, instance ORDER BY time)
),
engines AS (
  SELECT minute, host_id, region, host_type, from_us, to_us, wall_us, CAST(busy_us + padding_us AS DOUBLE) AS ran_us, CAST(chip_parts AS DOUBLE) AS parts
  FROM engine_minutes
  WHERE wall_us > 0
  UNION ALL
  SELECT (at - 1) / 60000000, host_id, max(region), max(host_type), min(at_before), max(at), sum(at - at_before),
    sum(CAST(at - at_before AS DOUBLE) * CAST(runs + ran_before AS DOUBLE) / 2.0), CAST(coalesce(max(chips), 1) AS DOUBLE) * 28.0
  FROM gauged
  WHERE busy_us IS NULL AND at > at_before AND at - at_before <= 120000000
  GROUP BY (at - 1) / 60000000, host_id, instance
),
ran AS (
  -- share of time in which the engines of a host ran, each as much as it holds of the host
  SELECT minute, host_id, max(region) AS region, max(host_type) AS host_type, min(from_us) AS from_us, max(to_us) AS to_us, max(wall_us) AS wall_us,
    sum(parts * ran_us / CAST(wall_us AS DOUBLE)) / sum(parts) AS duty
  FROM engines
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
  -- a meter before a model, an operator's own model before what comes with Tokenwatt, a curve before two figures, the widest boundary, the newest
  SELECT *, row_number() OVER (
      PARTITION BY minute, host_id
      ORDER BY is_modelled, list IS NULL, method,
        CASE boundary WHEN 'facility' THEN 0 WHEN 'wall' THEN 1 WHEN 'node' THEN 2 WHEN 'board' THEN 3 WHEN 'chip' THEN 4 ELSE 5 END,
        effective_from DESC NULLS LAST, source
    ) AS choice
  FROM modelled
  WHERE joules IS NOT NULL
)
SELECT arrow_cast(minute * 60000000, 'Timestamp(Microsecond, Some("UTC"))') AS time, region, CAST(NULL AS VARCHAR) AS model,
  host_id, host_type, joules, devices, boundary, method, confidence, minute, from_us, to_us, coverage, largest_gap_s, flaw IS NULL AS is_valid,
  flaw, idle_w
FROM chosen
WHERE choice = 1
