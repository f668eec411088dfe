WITH judged AS (
  SELECT CAST(time AS BIGINT) / 60000000 AS minute, unnest(string_to_array(slo_set, ',')) AS slo, slo_met, measured
  FROM requests_minutes
  WHERE slo_set IS NOT NULL
),
minutes AS (
  SELECT minute, slo, sum(measured) AS calls,
    sum(CASE WHEN strpos(',' || slo_met || ',', ',' || slo || ',') > 0 THEN measured ELSE 0 END) AS good
  FROM judged
  GROUP BY minute, slo
),
terms AS (
  -- a row of an objective ends where it says, or where the next of its name begins
  SELECT name, indicator, measured_at, threshold, objective, "window", region, model,
    CAST(effective_from AS BIGINT) / 60000000 AS from_minute,
    least(
      coalesce(CAST(effective_to AS BIGINT), CAST(9000000000000000000 AS BIGINT)),
      coalesce(CAST(lead(effective_from) OVER changes AS BIGINT), CAST(9000000000000000000 AS BIGINT))
    ) / 60000000 AS to_minute
  FROM slos
  WINDOW changes AS (PARTITION BY name ORDER BY effective_from, effective_to NULLS FIRST)
),
spent AS (
  SELECT m.minute, m.slo, m.calls, m.good, t.region, t.model, t.indicator, t.measured_at, t.threshold, t.objective, t."window"
  FROM minutes AS m
  JOIN terms AS t ON t.name = m.slo AND t.from_minute <= m.minute AND m.minute < t.to_minute
)
SELECT arrow_cast(minute * 60000000, 'Timestamp(Microsecond, Some("UTC"))') AS time, region, model, slo,
  indicator, measured_at, threshold, objective, "window", calls, good,
  CAST(sum(calls - good) OVER last_5m AS DOUBLE) / CAST(sum(calls) OVER last_5m AS DOUBLE) / (1.0 - objective) AS burn_5m,
  CAST(sum(calls - good) OVER last_30m AS DOUBLE) / CAST(sum(calls) OVER last_30m AS DOUBLE) / (1.0 - objective) AS burn_30m,
  CAST(sum(calls - good) OVER last_1h AS DOUBLE) / CAST(sum(calls) OVER last_1h AS DOUBLE) / (1.0 - objective) AS burn_1h,
  CAST(sum(calls - good) OVER last_6h AS DOUBLE) / CAST(sum(calls) OVER last_6h AS DOUBLE) / (1.0 - objective) AS burn_6h,
  CAST(sum(calls - good) OVER last_3d AS DOUBLE) / CAST(sum(calls) OVER last_3d AS DOUBLE) / (1.0 - objective) AS burn_3d
FROM spent
WINDOW last_5m AS (PARTITION BY slo ORDER BY minute RANGE BETWEEN 4 PRECEDING AND CURRENT ROW),
  last_30m AS (PARTITION BY slo ORDER BY minute RANGE BETWEEN 29 PRECEDING AND CURRENT ROW),
  last_1h AS (PARTITION BY slo ORDER BY minute RANGE BETWEEN 59 PRECEDING AND CURRENT ROW),
  last_6h AS (PARTITION BY slo ORDER BY minute RANGE BETWEEN 359 PRECEDING AND CURRENT ROW),
  last_3d AS (PARTITION BY slo ORDER BY minute RANGE BETWEEN 4319 PRECEDING AND CURRENT ROW)
