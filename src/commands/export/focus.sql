SELECT time, region, model, environment, cluster, pool, host_id, host_type, tenant, namespace, allocation, part, basis, method, confidence, price_as_of,
  sum(list_cost) AS list_cost, sum(effective_cost) AS effective_cost, sum(billed_cost) AS billed_cost,
  sum(public_cost) AS public_cost, sum(contracted_cost) AS contracted_cost,
  sum(device_us) AS device_us, sum(tokens) AS tokens, sum(energy_j) AS energy_j
FROM costs_hours
WHERE time >= $from AND time < $to
GROUP BY time, region, model, environment, cluster, pool, host_id, host_type, tenant, namespace, allocation, part, basis, method, confidence, price_as_of
ORDER BY time, host_id, part, tenant, namespace, model, allocation, basis, method, confidence, price_as_of
