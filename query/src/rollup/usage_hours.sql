WITH hours AS (
  SELECT CAST(time AS BIGINT) / 3600000000 AS hour, region, model, environment, cluster, pool, engine, host_type, service_version, measured_at, status, tenant, namespace,
    sum(counts) AS requests,
    sum(CASE WHEN slo_set IS NULL THEN NULL WHEN slo_met = slo_set THEN 1 ELSE 0 END) AS good,
    sum(CASE WHEN counts = 1 THEN input_tokens END) AS input_tokens,
    sum(CASE WHEN counts = 1 THEN cached_input_tokens END) AS cached_input_tokens,
    sum(CASE WHEN counts = 1 THEN output_tokens END) AS output_tokens,
    sum(CASE WHEN counts = 1 THEN device_us_prefill END) AS device_us_prefill,
    sum(CASE WHEN counts = 1 THEN device_us_decode END) AS device_us_decode
  FROM measured_calls
  GROUP BY CAST(time AS BIGINT) / 3600000000, region, model, environment, cluster, pool, engine, host_type, service_version, measured_at, status, tenant, namespace
)
SELECT arrow_cast(hour * 3600000000, 'Timestamp(Microsecond, Some("UTC"))') AS time, region, model, environment, cluster, pool, engine, host_type, service_version, measured_at, status, tenant, namespace,
  requests, good, input_tokens, cached_input_tokens, output_tokens, device_us_prefill, device_us_decode
FROM hours
