SELECT time, region, model, host_id, host_type, instance, part, joules, boundary, energy_method AS method, energy_confidence AS confidence,
  coverage, is_valid, split, replica
FROM replica_account
WHERE joules IS NOT NULL
