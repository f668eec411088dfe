WITH calls AS (
  SELECT CAST(time AS BIGINT) + CAST(CASE WHEN queue_s > 0.0 AND queue_s < 900.0 THEN queue_s ELSE 0.0 END * 1000000.0 AS BIGINT) AS began,
    -- minutes of a call beyond a quarter of an hour are nobody's
    CAST(time AS BIGINT) + CAST(least(e2e_s, 900.0) * 1000000.0 AS BIGINT) AS ended,
    region, environment, cluster, pool, namespace, host_id, host_type, instance, model, tenant, trace_id, span_id, token_sampling,
    output_tokens, device_us_prefill + device_us_decode AS device_us
  FROM requests
  WHERE measured_at = 'server' AND host_id IS NOT NULL AND e2e_s > 0.0
),
minutes AS (
  SELECT c.*, began / 60000000 + ahead AS minute, CAST(ended - began AS DOUBLE) AS whole_us,
    greatest(began, (began / 60000000 + ahead) * 60000000) AS from_us,
    least(ended, (began / 60000000 + ahead + 1) * 60000000) AS to_us
  FROM calls AS c CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15)) AS reach(ahead)
  WHERE ended > began AND (began / 60000000 + ahead) * 60000000 < ended
)
SELECT arrow_cast(minute * 60000000, 'Timestamp(Microsecond, Some("UTC"))') AS time, region, model, environment, cluster, pool, namespace,
  host_id, host_type, instance, tenant, trace_id, span_id, token_sampling, from_us, to_us, to_us - from_us AS flight_us,
  -- differences of what had been done by then, so that a call's minutes add up to the call
  CAST(floor(CAST(device_us AS DOUBLE) * (CAST(to_us - began AS DOUBLE) / whole_us)) AS BIGINT)
    - CAST(floor(CAST(device_us AS DOUBLE) * (CAST(from_us - began AS DOUBLE) / whole_us)) AS BIGINT) AS device_us,
  CAST(floor(CAST(output_tokens AS DOUBLE) * (CAST(to_us - began AS DOUBLE) / whole_us)) AS BIGINT)
    - CAST(floor(CAST(output_tokens AS DOUBLE) * (CAST(from_us - began AS DOUBLE) / whole_us)) AS BIGINT) AS output_tokens,
  coalesce(token_sampling, 0.0) >= 1.0 AND coalesce(output_tokens, 0) > 0 AS sends_tokens
FROM minutes
