WITH windows AS (
  SELECT time, minute - back AS bucket, host_id, instance, from_us, to_us
  FROM engine_minutes CROSS JOIN (VALUES (0), (1), (2)) AS reach(back)
),
shares AS (
  SELECT w.time, w.host_id, w.instance, t.trace_id, t.request_span_id, max(t.region) AS region, max(t.model) AS model,
    max(t.environment) AS environment, max(t.cluster) AS cluster, max(t.pool) AS pool, max(t.namespace) AS namespace,
    max(t.tenant) AS tenant, max(t.host_type) AS host_type, sum(t.device_us) AS device_us, sum(t."count") AS output_tokens
  FROM windows AS w
  JOIN tokens AS t ON t.host_id = w.host_id AND t.instance = w.instance AND (CAST(t.time AS BIGINT) - 1) / 60000000 = w.bucket
    AND CAST(t.time AS BIGINT) > w.from_us AND CAST(t.time AS BIGINT) <= w.to_us
  GROUP BY w.time, w.host_id, w.instance, t.trace_id, t.request_span_id
),
borne AS (
  SELECT time, host_id, instance, trace_id, request_span_id, region, model, environment, cluster, pool, namespace, tenant, host_type,
    device_us, output_tokens, CAST(NULL AS BIGINT) AS flight_us, false AS is_call, false AS sends_tokens
  FROM shares
  UNION ALL
  SELECT time, host_id, instance, trace_id, span_id, region, model, environment, cluster, pool, namespace, tenant, host_type,
    device_us, output_tokens, flight_us, true, sends_tokens
  FROM call_minutes
),
told AS (
  SELECT *, sum(CASE WHEN NOT is_call THEN device_us END) OVER one_call AS tokens_us,
    count(CASE WHEN NOT is_call THEN 1 END) OVER one_call > 0 AS has_tokens
  FROM borne
  WINDOW one_call AS (PARTITION BY time, host_id, instance, trace_id, request_span_id)
),
rests AS (
  -- calls bear what no token says: the device time that they report beyond their tokens', else their time in flight
  SELECT *, CASE
      WHEN NOT is_call THEN NULL
      WHEN device_us IS NULL THEN flight_us
      ELSE greatest(device_us - coalesce(tokens_us, CAST(0 AS BIGINT)), CAST(0 AS BIGINT))
    END AS rest_us
  FROM told
),
paid AS (
  SELECT b.*, c.instance AS replica, c.cost_usd, c.effective_cost_usd, c.billed_cost_usd, c.list_cost_usd, c.contracted_cost_usd, c.calls_us, c.basis, c.price_as_of, c.price_confidence,
    sum(b.rest_us) OVER (PARTITION BY b.time, b.host_id, c.instance) AS rests_us
  FROM rests AS b
  JOIN replica_cost AS c ON c.part = 'requests' AND c.time = b.time AND c.host_id = b.host_id
    AND (c.instance IS NULL OR (c.instance = b.instance AND (NOT b.is_call OR (c.calls_us > 0 AND NOT b.sends_tokens))))
),
divided AS (
  -- in whole microseconds that sum to what calls bear
  SELECT *, CASE WHEN is_call AND replica IS NOT NULL THEN whole_split(calls_us, CASE WHEN rests_us > 0 THEN rest_us ELSE CAST(1 AS BIGINT) END)
    OVER (PARTITION BY time, host_id, replica, is_call ORDER BY trace_id, request_span_id) END AS given_us
  FROM paid
),
weighed AS (
  SELECT *, CASE
      WHEN NOT is_call THEN coalesce(device_us, CAST(0 AS BIGINT))
      WHEN replica IS NULL THEN greatest(rest_us, CAST(1 AS BIGINT))
      ELSE given_us
    END AS weight
  FROM divided
)
SELECT time, region, model, tenant, namespace, environment, cluster, pool, trace_id, request_span_id, host_id, host_type, instance,
  CASE WHEN NOT is_call THEN device_us WHEN replica IS NOT NULL THEN weight END AS device_us,
  CASE WHEN NOT is_call OR NOT has_tokens THEN output_tokens END AS output_tokens,
  CASE WHEN is_call OR device_us IS NOT NULL THEN money_split(cost_usd, weight)
    OVER (PARTITION BY time, host_id, replica ORDER BY trace_id, request_span_id, is_call) END AS cost_usd,
  basis,
  CASE WHEN NOT is_call THEN 'device time' WHEN replica IS NULL THEN 'calls in flight' ELSE 'device time of the replica, by calls in flight' END AS method,
  price_as_of, price_confidence, weight, coalesce(replica, '') AS replica,
  CASE WHEN is_call OR device_us IS NOT NULL THEN money_split(effective_cost_usd, weight)
    OVER (PARTITION BY time, host_id, replica ORDER BY trace_id, request_span_id, is_call) END AS effective_cost_usd,
  CASE WHEN is_call OR device_us IS NOT NULL THEN money_split(billed_cost_usd, weight)
    OVER (PARTITION BY time, host_id, replica ORDER BY trace_id, request_span_id, is_call) END AS billed_cost_usd,
  CASE WHEN is_call OR device_us IS NOT NULL THEN money_split(list_cost_usd, weight)
    OVER (PARTITION BY time, host_id, replica ORDER BY trace_id, request_span_id, is_call) END AS list_cost_usd,
  CASE WHEN is_call OR device_us IS NOT NULL THEN money_split(contracted_cost_usd, weight)
    OVER (PARTITION BY time, host_id, replica ORDER BY trace_id, request_span_id, is_call) END AS contracted_cost_usd
FROM weighed
