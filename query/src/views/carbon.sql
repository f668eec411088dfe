WITH energy AS (
  SELECT time, region, model, part, boundary, energy_method AS method, energy_confidence AS confidence, sum(energy_j) AS joules
  FROM costs_hours
  WHERE energy_j IS NOT NULL
  GROUP BY time, region, model, part, boundary, energy_method, energy_confidence
),
asked AS (
  SELECT DISTINCT time, region FROM energy
),
overheads AS (
  -- an operator's own factor before what comes with Tokenwatt
  SELECT a.time, a.region, g.pue, g.as_of, row_number() OVER (
      PARTITION BY a.time, a.region
      ORDER BY g.list IS NULL, CASE g.confidence WHEN 'measured' THEN 0 WHEN 'published' THEN 1 ELSE 2 END, g.effective_from DESC, g.source
    ) AS place
  FROM asked AS a
  JOIN grid AS g ON g.region = a.region AND g.pue IS NOT NULL AND g.effective_from <= a.time AND (g.effective_to IS NULL OR g.effective_to > a.time)
),
grams AS (
  SELECT a.time, a.region, g.gco2e_per_kwh, g.method, g.as_of, g.confidence, row_number() OVER (
      PARTITION BY a.time, a.region, g.method
      ORDER BY g.list IS NULL, CASE g.confidence WHEN 'measured' THEN 0 WHEN 'published' THEN 1 ELSE 2 END, g.effective_from DESC, g.source
    ) AS place
  FROM asked AS a
  JOIN grid AS g ON g.region = a.region AND g.gco2e_per_kwh IS NOT NULL AND g.effective_from <= a.time
    AND (g.effective_to IS NULL OR g.effective_to > a.time)
),
factors AS (
  SELECT e.*, CASE WHEN e.boundary = 'facility' THEN 1.0 ELSE o.pue END AS pue,
    CASE WHEN e.boundary = 'facility' THEN 'within the boundary' ELSE o.as_of END AS pue_as_of,
    f.gco2e_per_kwh, f.method AS grid_method, f.as_of AS grid_as_of, f.confidence AS grid_confidence
  FROM energy AS e
  LEFT JOIN overheads AS o ON o.time = e.time AND o.region = e.region AND o.place = 1
  LEFT JOIN grams AS f ON f.time = e.time AND f.region = e.region AND f.place = 1
)
SELECT time, region, model, part, boundary, method, confidence, joules, pue, pue_as_of, joules * pue AS facility_joules,
  gco2e_per_kwh, grid_method, grid_as_of, grid_confidence, joules * pue / 3600000.0 * gco2e_per_kwh AS gco2e
FROM factors
