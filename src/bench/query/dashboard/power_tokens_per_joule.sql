WITH energy AS (
  SELECT host_id, max(host_type) AS host_type, sum(energy_j) AS joules
  FROM devices_1m
  WHERE time >= TIMESTAMP '2026-07-08 12:00:00' AND time < TIMESTAMP '2026-07-08 13:00:00'
  GROUP BY host_id
),
made AS (
  SELECT host_id, max(model) AS model, sum(tokens) AS tokens
  FROM hosts_1m
  WHERE time >= TIMESTAMP '2026-07-08 12:00:00' AND time < TIMESTAMP '2026-07-08 13:00:00'
  GROUP BY host_id
)
SELECT m.model, e.host_type, sum(m.tokens) / sum(e.joules) AS tokens_per_joule
FROM energy AS e
JOIN made AS m ON m.host_id = e.host_id
GROUP BY m.model, e.host_type
ORDER BY m.model, e.host_type
