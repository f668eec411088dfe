SELECT time, region, model, host_type, boundary, method, confidence, joules, output_tokens,
  joules / nullif(CAST(output_tokens AS DOUBLE), 0.0) AS joules_per_output_token, coverage, is_valid
FROM perf_per_watt
