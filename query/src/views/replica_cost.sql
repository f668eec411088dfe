WITH served AS (
  SELECT (CAST(time AS BIGINT) - 1) / 60000000 AS minute, host_id, instance,
    sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens
  FROM requests
  WHERE measured_at = 'server' AND host_id IS NOT NULL AND instance IS NOT NULL
  GROUP BY 1, 2, 3
),
sampling AS (
  SELECT host_id, instance, min(coalesce(token_sampling, 0.0)) AS share
  FROM requests
  WHERE measured_at = 'server' AND host_id IS NOT NULL AND instance IS NOT NULL
  GROUP BY host_id, instance
),
replicas AS (
  SELECT n.time, n.region, coalesce(r.model, n.model) AS model, n.host_id, n.host_type, r.instance,
    n."option", n.basis, n.price_as_of, n.price_confidence, n.requests,
    -- the host's calls belong to one replica each
    CASE WHEN r.instance IS NULL THEN n.input_tokens ELSE v.input_tokens END AS input_tokens,
    CASE
      WHEN r.instance IS NULL THEN n.output_tokens
      -- where not every call sends its tokens, the calls say how many there were
      WHEN s.share < 1.0 THEN v.output_tokens
      ELSE r.output_tokens
    END AS output_tokens,
    r.requests_us, r.unattributed_us, r.padding_us, r.idle_us,
    -- replicas on one host share its price by the chips they hold
    money_split(n.usd_per_hour, coalesce(r.chips, CAST(1 AS BIGINT))) OVER one_host AS usd_per_hour,
    money_split(n.cost_usd, coalesce(r.chips, CAST(1 AS BIGINT))) OVER one_host AS cost_usd
  FROM node_cost AS n
  LEFT JOIN replica_minutes AS r ON r.time = n.time AND r.host_id = n.host_id
  LEFT JOIN served AS v ON v.minute = CAST(r.time AS BIGINT) / 60000000 AND v.host_id = r.host_id AND v.instance = r.instance
  LEFT JOIN sampling AS s ON s.host_id = r.host_id AND s.instance = r.instance
  WINDOW one_host AS (PARTITION BY n.time, n.host_id ORDER BY r.instance)
),
parts AS (
  SELECT *,
    unnest(CASE
      WHEN instance IS NOT NULL THEN make_array('requests', 'padding', 'idle', 'unattributed')
      WHEN requests > 0 THEN make_array('unattributed')
      ELSE make_array('shared')
    END) AS part,
    unnest(CASE
      WHEN instance IS NOT NULL THEN make_array(requests_us, padding_us, idle_us, greatest(unattributed_us, CAST(0 AS BIGINT)))
      ELSE make_array(CAST(1 AS BIGINT))
    END) AS weight
  FROM replicas
)
SELECT time, region, model, host_id, host_type, instance, part,
  CASE WHEN instance IS NULL THEN NULL ELSE weight END AS device_us,
  money_split(cost_usd, weight) OVER (PARTITION BY time, host_id, instance ORDER BY part) AS cost_usd,
  CASE WHEN part <> 'requests' AND instance IS NOT NULL THEN NULL ELSE usd_per_hour END AS usd_per_hour,
  CASE WHEN part <> 'requests' AND instance IS NOT NULL THEN NULL ELSE output_tokens END AS output_tokens,
  CASE WHEN part <> 'requests' AND instance IS NOT NULL THEN NULL ELSE input_tokens END AS input_tokens,
  "option", basis, CASE WHEN instance IS NULL THEN 'whole host' ELSE 'device time' END AS method, price_as_of, price_confidence
FROM parts
