WITH charges AS (
  SELECT *, CAST(time AS BIGINT) AS from_us, CAST(charge_to AS BIGINT) AS to_us,
    unnest(range(CAST(time AS BIGINT) / 3600000000, (CAST(charge_to AS BIGINT) + 3599999999) / 3600000000)) AS hour
  FROM (
    SELECT time, charge_to, region, zone, host_id, host_type, "option", list_usd, effective_usd, billed_usd, contracted_usd, paid_us, method, imported_at,
      coalesce(without_rate || CASE WHEN other_without_rate <> without_rate THEN ', ' || other_without_rate ELSE '' END, other_without_rate) AS without_rate
    FROM host_charges
  )
  -- what has no rate is in no sum, and is named
  WHERE paid_us IS NOT NULL OR without_rate IS NOT NULL
),
bounds AS (
  SELECT *, to_us - from_us AS whole_us, least(to_us, (hour + 1) * 3600000000) - from_us AS until_us, greatest(from_us, hour * 3600000000) - from_us AS since_us
  FROM charges
),
parts AS (
  -- an hour's part of a longer charge is what was charged by its end less what was by its start: the hours sum to the charge
  SELECT hour, host_id, region, zone, host_type, "option", from_us, method, imported_at, without_rate,
    CASE WHEN paid_us >= whole_us THEN from_us + since_us END AS full_from_us, CASE WHEN paid_us >= whole_us THEN from_us + until_us END AS full_to_us,
    CAST(money_scale(list_usd, until_us, whole_us) - money_scale(list_usd, since_us, whole_us) AS DECIMAL(38,12)) AS list_usd,
    CAST(money_scale(effective_usd, until_us, whole_us) - money_scale(effective_usd, since_us, whole_us) AS DECIMAL(38,12)) AS effective_usd,
    CAST(money_scale(billed_usd, until_us, whole_us) - money_scale(billed_usd, since_us, whole_us) AS DECIMAL(38,12)) AS billed_usd,
    CAST(money_scale(contracted_usd, until_us, whole_us) - money_scale(contracted_usd, since_us, whole_us) AS DECIMAL(38,12)) AS contracted_usd,
    CAST(round(CAST(paid_us AS DOUBLE) * (CAST(until_us - since_us AS DOUBLE) / CAST(whole_us AS DOUBLE))) AS BIGINT) AS paid_us,
    from_us + since_us AS part_from_us, from_us + until_us AS part_to_us
  FROM bounds
),
ordered AS (
  -- how far those reach that began before
  SELECT *, max(CASE WHEN paid_us IS NOT NULL THEN part_to_us END) OVER those_before AS reached_us, max(full_to_us) OVER those_before AS full_reached_us
  FROM parts
  WINDOW those_before AS (PARTITION BY hour, host_id ORDER BY part_from_us, part_to_us, full_to_us ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
added AS (
  -- what each adds to them: the union of all is the sum
  SELECT *, CASE WHEN paid_us IS NOT NULL THEN greatest(part_to_us - greatest(part_from_us, coalesce(reached_us, part_from_us)), CAST(0 AS BIGINT)) END AS union_us,
    CASE WHEN full_to_us IS NOT NULL THEN greatest(full_to_us - greatest(full_from_us, coalesce(full_reached_us, full_from_us)), CAST(0 AS BIGINT)) END AS full_us
  FROM ordered
)
SELECT arrow_cast(hour * 3600000000, 'Timestamp(Microsecond, Some("UTC"))') AS time, max(region) AS region, CAST(NULL AS VARCHAR) AS model,
  max(zone) AS zone, host_id, max(host_type) AS host_type, first_value("option" ORDER BY paid_us DESC NULLS LAST, from_us) AS "option",
  arrow_cast(hour * 3600000000 + 3600000000, 'Timestamp(Microsecond, Some("UTC"))') AS charge_to,
  CASE WHEN count(list_usd) = count(paid_us) THEN sum(list_usd) END AS list_usd,
  CASE WHEN count(effective_usd) = count(paid_us) THEN sum(effective_usd) END AS effective_usd,
  CASE WHEN count(billed_usd) = count(paid_us) THEN sum(billed_usd) END AS billed_usd,
  -- charges that lie over each other are paid for together and make no time longer
  CASE WHEN count(paid_us) > 0 THEN least(
    coalesce(sum(full_us), CAST(0 AS BIGINT)) + coalesce(sum(CASE WHEN full_us IS NULL THEN paid_us END), CAST(0 AS BIGINT)), sum(union_us)
  ) END AS paid_us,
  -- of charges with a gap between them it is not said
  CASE WHEN sum(full_us) = max(full_to_us) - min(full_from_us) THEN min(full_from_us) END AS full_from_us,
  CASE WHEN sum(full_us) = max(full_to_us) - min(full_from_us) THEN max(full_to_us) END AS full_to_us,
  'bill' AS basis, string_agg(DISTINCT method, ', ') AS method, CAST(max(imported_at) AS VARCHAR) AS price_as_of, max(imported_at) AS imported_at,
  max(without_rate) AS without_rate,
  CASE WHEN count(contracted_usd) = count(paid_us) THEN sum(contracted_usd) END AS contracted_usd
FROM added
GROUP BY hour, host_id
