WITH hours AS (
  SELECT time, region, model, environment, namespace, tenant, host_type, part, basis, sum(list_cost) AS cost_usd, sum(device_us) AS device_us,
    sum(tokens) AS output_tokens, string_agg(DISTINCT method, ', ' ORDER BY method) AS method, min(price_as_of) AS oldest_price_as_of,
    -- a sum of which a part is unknown is unknown
    CASE WHEN count(CASE WHEN public_cost IS NULL AND (list_cost IS NOT NULL OR basis = 'no price') THEN 1 END) = 0 THEN sum(public_cost) END AS list_cost_usd,
    CASE WHEN count(CASE WHEN effective_cost IS NULL AND (list_cost IS NOT NULL OR basis = 'no price') THEN 1 END) = 0 THEN sum(effective_cost) END AS effective_cost_usd,
    CASE WHEN count(CASE WHEN billed_cost IS NULL AND (list_cost IS NOT NULL OR basis = 'no price') THEN 1 END) = 0 THEN sum(billed_cost) END AS billed_cost_usd
  FROM costs_hours
  GROUP BY time, region, model, environment, namespace, tenant, host_type, part, basis
),
weighed AS (
  SELECT *, part IN ('idle', 'padding') AS is_waste,
    -- in thousandths of a micro-dollar
    CASE WHEN part = 'requests' AND cost_usd > 0 THEN CAST(CAST(cost_usd AS DOUBLE) * 1000000000.0 AS BIGINT) ELSE CAST(0 AS BIGINT) END AS weight
  FROM hours
),
grouped AS (
  SELECT *, sum(CASE WHEN is_waste THEN cost_usd END) OVER those AS waste_usd, sum(weight) OVER those AS weights,
    -- of those that are shared
    sum(CASE WHEN is_waste AND cost_usd IS NOT NULL THEN list_cost_usd END) OVER those AS waste_list,
    count(CASE WHEN is_waste AND cost_usd IS NOT NULL AND list_cost_usd IS NULL THEN 1 END) OVER those AS unknown_list,
    sum(CASE WHEN is_waste AND cost_usd IS NOT NULL THEN effective_cost_usd END) OVER those AS waste_effective,
    count(CASE WHEN is_waste AND cost_usd IS NOT NULL AND effective_cost_usd IS NULL THEN 1 END) OVER those AS unknown_effective,
    sum(CASE WHEN is_waste AND cost_usd IS NOT NULL THEN billed_cost_usd END) OVER those AS waste_billed,
    count(CASE WHEN is_waste AND cost_usd IS NOT NULL AND billed_cost_usd IS NULL THEN 1 END) OVER those AS unknown_billed
  FROM weighed
  WINDOW those AS (PARTITION BY time, region, model)
),
borne AS (
  SELECT *, money_split(waste_usd, weight) OVER one_share AS share_usd, money_split(waste_list, weight) OVER one_share AS share_list,
    money_split(waste_effective, weight) OVER one_share AS share_effective, money_split(waste_billed, weight) OVER one_share AS share_billed
  FROM grouped
  WINDOW one_share AS (PARTITION BY time, region, model ORDER BY part, tenant, namespace, environment, host_type, basis)
),
policies AS (
  SELECT *, unnest(make_array('show', 'share', 'hide')) AS idle_policy FROM borne
)
SELECT time, region, model, idle_policy, tenant, namespace, environment, host_type, part,
  CASE WHEN idle_policy = 'share' AND part = 'requests' THEN cost_usd + coalesce(share_usd, CAST(0 AS DECIMAL(38,12))) ELSE cost_usd END AS cost_usd,
  CASE WHEN idle_policy = 'share' AND part = 'requests' THEN share_usd END AS shared_idle_usd,
  device_us, output_tokens, basis, method, oldest_price_as_of,
  CASE
    WHEN idle_policy <> 'share' OR part <> 'requests' THEN list_cost_usd
    WHEN unknown_list = 0 THEN list_cost_usd + coalesce(share_list, CAST(0 AS DECIMAL(38,12)))
  END AS list_cost_usd,
  CASE
    WHEN idle_policy <> 'share' OR part <> 'requests' THEN effective_cost_usd
    WHEN unknown_effective = 0 THEN effective_cost_usd + coalesce(share_effective, CAST(0 AS DECIMAL(38,12)))
  END AS effective_cost_usd,
  CASE
    WHEN idle_policy <> 'share' OR part <> 'requests' THEN billed_cost_usd
    WHEN unknown_billed = 0 THEN billed_cost_usd + coalesce(share_billed, CAST(0 AS DECIMAL(38,12)))
  END AS billed_cost_usd
FROM policies
-- where nobody was served there is nobody to share with, and the line stays; so does one whose cost is unknown
WHERE NOT (is_waste AND (idle_policy = 'hide' OR (idle_policy = 'share' AND weights > 0 AND cost_usd IS NOT NULL)))
