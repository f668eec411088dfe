WITH minutes AS (
  SELECT CAST(time AS BIGINT) / 60000000 AS minute, region, model, environment, cluster, pool, engine, host_type, service_version, measured_at, status, slo_set, slo_met,
    sum(counts) AS requests, count(*) AS measured,
    sum(CASE WHEN counts = 1 THEN input_tokens END) AS input_tokens,
    sum(CASE WHEN counts = 1 THEN cached_input_tokens END) AS cached_input_tokens,
    sum(CASE WHEN counts = 1 THEN output_tokens END) AS output_tokens,
    sum(CASE WHEN counts = 1 THEN device_us_prefill END) AS device_us_prefill,
    sum(CASE WHEN counts = 1 THEN device_us_decode END) AS device_us_decode,
    exph(ttft_s) AS ttft, exph(tpot_s) AS tpot, exph(e2e_s) AS e2e, exph(queue_s) AS queue
  FROM measured_calls
  GROUP BY CAST(time AS BIGINT) / 60000000, region, model, environment, cluster, pool, engine, host_type, service_version, measured_at, status, slo_set, slo_met
)
SELECT arrow_cast(minute * 60000000, 'Timestamp(Microsecond, Some("UTC"))') AS time, region, model,
  environment, cluster, pool, engine, host_type, service_version, measured_at, status,
  requests, slo_set, CASE WHEN slo_set IS NULL THEN NULL WHEN slo_met = slo_set THEN measured ELSE 0 END AS good,
  input_tokens, cached_input_tokens, output_tokens, device_us_prefill, device_us_decode,
  ttft['scale'] AS ttft_scale, ttft['zero'] AS ttft_zero, ttft['idx'] AS ttft_idx, ttft['cnt'] AS ttft_cnt,
  ttft['count'] AS ttft_count, ttft['sum'] AS ttft_sum, ttft['min'] AS ttft_min, ttft['max'] AS ttft_max,
  tpot['scale'] AS tpot_scale, tpot['zero'] AS tpot_zero, tpot['idx'] AS tpot_idx, tpot['cnt'] AS tpot_cnt,
  tpot['count'] AS tpot_count, tpot['sum'] AS tpot_sum, tpot['min'] AS tpot_min, tpot['max'] AS tpot_max,
  e2e['scale'] AS e2e_scale, e2e['zero'] AS e2e_zero, e2e['idx'] AS e2e_idx, e2e['cnt'] AS e2e_cnt,
  e2e['count'] AS e2e_count, e2e['sum'] AS e2e_sum, e2e['min'] AS e2e_min, e2e['max'] AS e2e_max,
  queue['scale'] AS queue_scale, queue['zero'] AS queue_zero, queue['idx'] AS queue_idx, queue['cnt'] AS queue_cnt,
  queue['count'] AS queue_count, queue['sum'] AS queue_sum, queue['min'] AS queue_min, queue['max'] AS queue_max,
  measured, slo_met
FROM minutes
