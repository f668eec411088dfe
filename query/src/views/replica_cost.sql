WITH served AS (
  SELECT (CAST(time AS BIGINT) - 1) / 60000000 AS minute, host_id, instance,
    sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, min(coalesce(token_sampling, 0.0)) AS share
  FROM requests
  WHERE measured_at = 'server' AND host_id IS NOT NULL AND instance IS NOT NULL
  GROUP BY 1, 2, 3
),
flights AS (
  -- calls whose tokens are not sent, so that device time without tokens is theirs; and the time in which at least one call was in flight on the
  -- host, which is the sum of what each call adds to those that began before it
  SELECT time, host_id, instance, count(CASE WHEN NOT sends_tokens THEN 1 END) AS calls, min(coalesce(token_sampling, 0.0)) AS share,
    sum(sum(greatest(to_us - greatest(from_us, coalesce(until_us, from_us)), CAST(0 AS BIGINT)))) OVER (PARTITION BY time, host_id) AS flight_us,
    row_number() OVER (PARTITION BY time, host_id ORDER BY instance) AS place
  FROM (
    SELECT time, host_id, instance, sends_tokens, token_sampling, from_us, to_us,
      max(to_us) OVER (PARTITION BY time, host_id ORDER BY from_us, to_us ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS until_us
    FROM call_minutes
  ) AS ordered
  GROUP BY time, host_id, instance
),
engines AS (
  SELECT DISTINCT (CAST(time AS BIGINT) - 1) / 60000000 AS minute, host_id FROM devices WHERE kind = 'engine' AND host_id IS NOT NULL
),
said AS (
  -- what engines hold of a host in a minute, in 28ths of a chip; unknown where one of them does not say
  SELECT time, host_id, minute / 60 AS hour,
    CASE WHEN min(environment) = max(environment) THEN max(environment) END AS environment,
    CASE WHEN min(cluster) = max(cluster) THEN max(cluster) END AS cluster, CASE WHEN min(pool) = max(pool) THEN max(pool) END AS pool,
    CASE WHEN count(CASE WHEN chips IS NOT NULL OR accelerator LIKE '%MIG%' THEN 1 END) = count(*) THEN sum(chip_parts) END AS held_parts
  FROM engine_minutes
  GROUP BY time, host_id, minute
),
sizes AS (
  SELECT host_id, chips, CAST(time AS BIGINT) / 3600000000 AS from_hour,
    greatest(CAST(time AS BIGINT), CAST(coalesce(last_seen, time) AS BIGINT) - 1) / 3600000000 AS to_hour
  FROM nodes
  WHERE chips > 0
  UNION ALL
  SELECT host_id, chips, CAST(effective_from AS BIGINT) / 3600000000, (CAST(effective_to AS BIGINT) - 1) / 3600000000
  FROM inventory
  WHERE chips > 0
),
holders AS (
  SELECT time, host_id, instance, model, environment, cluster, pool, chips, chip_parts, requests_us, unattributed_us, padding_us, idle_us,
    output_tokens, false AS is_unheld
  FROM replica_minutes
  UNION ALL
  -- and what none holds, where the host's chips are known: the most that a list or its nodes say in that hour
  SELECT s.time, s.host_id, CAST(NULL AS VARCHAR), CAST(NULL AS VARCHAR), s.environment, s.cluster, s.pool,
    (max(z.chips) * 28 - s.held_parts) / 28, max(z.chips) * 28 - s.held_parts, CAST(0 AS BIGINT), CAST(0 AS BIGINT), CAST(0 AS BIGINT), CAST(0 AS BIGINT),
    CAST(NULL AS BIGINT), true
  FROM said AS s
  JOIN sizes AS z ON z.host_id = s.host_id AND z.from_hour <= s.hour AND (z.to_hour IS NULL OR z.to_hour >= s.hour)
  GROUP BY s.time, s.host_id, s.environment, s.cluster, s.pool, s.held_parts
  HAVING max(z.chips) * 28 > s.held_parts
),
replicas AS (
  SELECT n.time, n.region, CASE WHEN r.is_unheld THEN NULL ELSE coalesce(r.model, n.model) END AS model, r.environment, r.cluster, r.pool, n.host_id, n.host_type, r.instance,
    n."option", n.basis, n.price_as_of, n.price_confidence, n.requests, n.charged_us, n.is_silent, n.is_listed, r.chips,
    coalesce(r.is_unheld, false) AS is_unheld, coalesce(r.chip_parts, CAST(28 AS BIGINT)) AS chip_parts,
    -- the host's calls belong to one replica each
    CASE WHEN r.is_unheld THEN NULL WHEN r.instance IS NULL THEN n.input_tokens ELSE v.input_tokens END AS input_tokens,
    CASE
      WHEN r.is_unheld THEN NULL
      WHEN r.instance IS NULL THEN n.output_tokens
      -- tokens that are no longer kept say nothing
      WHEN n.time < arrow_cast((CAST(arrow_cast(now(), 'Timestamp(Microsecond, Some("UTC"))') AS BIGINT) - CAST(7 AS BIGINT) * 86400000000 + 7199999999) / 3600000000 * 3600000000, 'Timestamp(Microsecond, Some("UTC"))') THEN v.output_tokens
      -- where not every call that came or was in flight in the minute sends its tokens, those that came say how many there were
      WHEN least(coalesce(v.share, 1.0), coalesce(f.share, 1.0)) < 1.0 THEN v.output_tokens
      ELSE r.output_tokens
    END AS output_tokens,
    r.requests_us, greatest(r.unattributed_us, CAST(0 AS BIGINT)) AS rest_us, r.padding_us, greatest(r.idle_us, CAST(0 AS BIGINT)) AS idle_us,
    CASE WHEN f.calls > 0 THEN greatest(r.unattributed_us, CAST(0 AS BIGINT)) ELSE 0 END AS calls_us,
    CASE WHEN r.instance IS NULL THEN f.flight_us END AS flight_us, g.host_id IS NOT NULL AS has_engine,
    -- replicas on one host share its price by the chips, or slices of one, that they hold, with those that none holds
    money_split(n.usd_per_hour, coalesce(r.chip_parts, CAST(28 AS BIGINT))) OVER one_host AS usd_per_hour,
    money_split(n.cost_usd, coalesce(r.chip_parts, CAST(28 AS BIGINT))) OVER one_host AS cost_usd,
    money_split(n.effective_cost_usd, coalesce(r.chip_parts, CAST(28 AS BIGINT))) OVER one_host AS effective_cost_usd,
    money_split(n.billed_cost_usd, coalesce(r.chip_parts, CAST(28 AS BIGINT))) OVER one_host AS billed_cost_usd,
    money_split(n.list_cost_usd, coalesce(r.chip_parts, CAST(28 AS BIGINT))) OVER one_host AS list_cost_usd,
    money_split(n.contracted_cost_usd, coalesce(r.chip_parts, CAST(28 AS BIGINT))) OVER one_host AS contracted_cost_usd
  FROM node_cost AS n
  LEFT JOIN holders AS r ON r.time = n.time AND r.host_id = n.host_id
  LEFT JOIN served AS v ON v.minute = CAST(r.time AS BIGINT) / 60000000 AND v.host_id = r.host_id AND v.instance = r.instance
  -- a host without replicas that count their time takes the host's flights once
  LEFT JOIN flights AS f ON f.time = n.time AND f.host_id = n.host_id
    AND CASE WHEN r.is_unheld THEN false WHEN r.instance IS NULL THEN f.place = 1 ELSE f.instance = r.instance END
  LEFT JOIN engines AS g ON g.minute = CAST(n.time AS BIGINT) / 60000000 AND g.host_id = n.host_id
  WINDOW one_host AS (PARTITION BY n.time, n.host_id ORDER BY r.instance)
),
parts AS (
  SELECT *,
    unnest(CASE
      WHEN instance IS NOT NULL THEN make_array('requests', 'padding', 'idle', 'unattributed')
      WHEN is_unheld THEN make_array('idle')
      WHEN flight_us > 0 THEN make_array('requests', 'idle')
      -- calls that do not say how long they took, or a host that only the bill knows of
      WHEN requests > 0 OR (is_silent AND NOT is_listed) THEN make_array('unattributed')
      -- one that a list has among the fleet's stands there and serves nobody
      WHEN has_engine OR is_silent THEN make_array('idle')
      ELSE make_array('shared')
    END) AS part,
    unnest(CASE
      -- a window without any time is idle, so that its money stays
      WHEN instance IS NOT NULL AND requests_us + rest_us + padding_us + idle_us = 0 THEN
        make_array(CAST(0 AS BIGINT), CAST(0 AS BIGINT), CAST(1 AS BIGINT), CAST(0 AS BIGINT))
      WHEN instance IS NOT NULL THEN make_array(requests_us + calls_us, padding_us, idle_us, rest_us - calls_us)
      WHEN flight_us > 0 THEN make_array(flight_us, greatest(charged_us - flight_us, CAST(0 AS BIGINT)))
      ELSE make_array(CAST(1 AS BIGINT))
    END) AS weight
  FROM replicas
),
shown AS (
  -- what a replica has once stands on one of its rows
  SELECT *, part = 'requests' OR (instance IS NULL AND coalesce(flight_us, 0) = 0) AS is_first FROM parts
)
SELECT time, region, model, environment, cluster, pool, host_id, host_type, instance, part,
  CASE WHEN instance IS NOT NULL THEN weight WHEN is_silent AND is_listed AND coalesce(flight_us, CAST(0 AS BIGINT)) = 0 THEN charged_us END AS device_us,
  money_split(cost_usd, weight) OVER (PARTITION BY time, host_id, instance ORDER BY part) AS cost_usd,
  CASE WHEN is_first THEN usd_per_hour END AS usd_per_hour,
  CASE WHEN is_first THEN output_tokens END AS output_tokens,
  CASE WHEN is_first THEN input_tokens END AS input_tokens,
  "option", basis,
  CASE
    WHEN instance IS NOT NULL AND time < arrow_cast((CAST(arrow_cast(now(), 'Timestamp(Microsecond, Some("UTC"))') AS BIGINT) - CAST(7 AS BIGINT) * 86400000000 + 7199999999) / 3600000000 * 3600000000, 'Timestamp(Microsecond, Some("UTC"))') THEN 'tokens are no longer kept: see costs_hours'
    WHEN calls_us > 0 THEN 'device time, rest by calls in flight'
    WHEN instance IS NOT NULL THEN 'device time'
    WHEN is_unheld THEN 'chips that no engine holds'
    WHEN flight_us > 0 THEN 'calls in flight'
    WHEN is_silent AND is_listed THEN 'listed and silent'
    WHEN is_silent THEN 'paid for and silent'
    ELSE 'whole host'
  END AS method,
  price_as_of, price_confidence, greatest(coalesce(chips, CAST(1 AS BIGINT)), CAST(1 AS BIGINT)) AS chips, weight, CASE WHEN part = 'requests' THEN calls_us END AS calls_us,
  money_split(effective_cost_usd, weight) OVER (PARTITION BY time, host_id, instance ORDER BY part) AS effective_cost_usd,
  money_split(billed_cost_usd, weight) OVER (PARTITION BY time, host_id, instance ORDER BY part) AS billed_cost_usd, chip_parts,
  money_split(list_cost_usd, weight) OVER (PARTITION BY time, host_id, instance ORDER BY part) AS list_cost_usd,
  money_split(contracted_cost_usd, weight) OVER (PARTITION BY time, host_id, instance ORDER BY part) AS contracted_cost_usd
FROM shown
