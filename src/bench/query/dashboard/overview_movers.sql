SELECT tenant, sum(CASE WHEN time >= TIMESTAMP '2026-07-08 12:00:00' THEN output_tokens ELSE 0 END) AS tokens,
  sum(CASE WHEN time < TIMESTAMP '2026-07-08 12:00:00' THEN output_tokens ELSE 0 END) AS tokens_before
FROM usage_1h
WHERE time >= TIMESTAMP '2026-07-08 00:00:00' AND time < TIMESTAMP '2026-07-09 00:00:00'
GROUP BY tenant
ORDER BY tokens - tokens_before DESC, tenant
LIMIT 12
