WITH parts AS (
  SELECT CAST(time AS BIGINT) / 60000000 AS minute, region, environment, cluster, pool, host_id, host_type, model,
    1 AS requests, CAST(NULL AS BIGINT) AS tokens, input_tokens, cached_input_tokens, output_tokens, device_us_prefill, device_us_decode,
    CAST(NULL AS BIGINT) AS padding_us, CAST(NULL AS BIGINT) AS idle_us, CAST(NULL AS BIGINT) AS wall_us, ttft_s
  FROM requests
  WHERE measured_at = 'server' AND host_id IS NOT NULL
  UNION ALL
  SELECT CAST(time AS BIGINT) / 60000000, region, environment, cluster, pool, host_id, host_type, model,
    NULL, "count", NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
  FROM tokens
  WHERE host_id IS NOT NULL
  UNION ALL
  SELECT minute, region, environment, cluster, pool, host_id, host_type, model,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, padding_us, wall_us - busy_us - padding_us, wall_us, NULL
  FROM engine_minutes
  WHERE host_id IS NOT NULL
),
minutes AS (
  SELECT minute, host_id, model, max(region) AS region, max(environment) AS environment, max(cluster) AS cluster, max(pool) AS pool,
    max(host_type) AS host_type, coalesce(sum(requests), 0) AS requests, coalesce(sum(tokens), 0) AS tokens,
    sum(input_tokens) AS input_tokens, sum(cached_input_tokens) AS cached_input_tokens, sum(output_tokens) AS output_tokens,
    sum(device_us_prefill) AS device_us_prefill, sum(device_us_decode) AS device_us_decode,
    sum(padding_us) AS padding_us, sum(idle_us) AS idle_us, sum(wall_us) AS wall_us, exph(ttft_s) AS ttft
  FROM parts
  GROUP BY minute, host_id, model
)
SELECT arrow_cast(minute * 60000000, 'Timestamp(Microsecond, Some("UTC"))') AS time, region, model,
  environment, cluster, pool, host_id, host_type, requests, tokens,
  input_tokens, cached_input_tokens, output_tokens, device_us_prefill, device_us_decode, padding_us, idle_us, wall_us,
  ttft['scale'] AS ttft_scale, ttft['zero'] AS ttft_zero, ttft['idx'] AS ttft_idx, ttft['cnt'] AS ttft_cnt,
  ttft['count'] AS ttft_count, ttft['sum'] AS ttft_sum, ttft['min'] AS ttft_min, ttft['max'] AS ttft_max
FROM minutes
