SELECT tenant, sum(input_tokens) AS prompt, sum(cached_input_tokens) AS cached, sum(output_tokens) AS made,
  avg(e2e_s) AS mean_s
FROM requests
GROUP BY tenant
HAVING sum(output_tokens) > 100000
ORDER BY made DESC, tenant
