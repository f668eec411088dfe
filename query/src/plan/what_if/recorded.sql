SELECT t.model, t.requests, t.input_tokens, t.output_tokens, CAST(t.busiest AS DOUBLE) / 3600.0 AS busiest_per_s,
  least(t.first_hour, coalesce(c.first_hour, t.first_hour)) * 3600000000 AS from_us,
  least(
    (greatest(t.last_hour, coalesce(c.last_hour, t.last_hour)) + 1) * 3600000000,
    -- the hour under way is paid for as far as it has come
    greatest($now, t.last_hour * 3600000000 + 60000000)
  ) AS to_us,
  c.usd, c.effective, c.basis
FROM (
  SELECT model, sum(requests) AS requests, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
    min(hour) AS first_hour, max(hour) AS last_hour, max(requests) AS busiest
  FROM (
    SELECT model, CAST(time AS BIGINT) / 3600000000 AS hour, sum(requests) AS requests, sum(input_tokens) AS input_tokens,
      sum(output_tokens) AS output_tokens
    FROM requests_minutes
    WHERE $during AND model IS NOT NULL
    GROUP BY model, CAST(time AS BIGINT) / 3600000000
  ) AS hours
  GROUP BY model
) AS t
LEFT JOIN (
  SELECT model, min(CAST(time AS BIGINT)) / 3600000000 AS first_hour, max(CAST(time AS BIGINT)) / 3600000000 AS last_hour,
    CAST(sum(CASE WHEN basis <> 'no price' THEN list_cost END) AS DOUBLE)
      / nullif(CAST(sum(CASE WHEN basis <> 'no price' THEN tokens END) AS DOUBLE), 0.0) * 1000000.0 AS usd,
    CAST(sum(paid) AS DOUBLE) / nullif(CAST(sum(CASE WHEN paid IS NOT NULL THEN tokens END) AS DOUBLE), 0.0) * 1000000.0 AS effective,
    string_agg(DISTINCT basis, ', ' ORDER BY basis) AS basis
  FROM (
    -- what is paid: by the bill or at a negotiated discount, else the price in the book
    SELECT *, coalesce(effective_cost, CASE WHEN basis <> 'no price' THEN list_cost END) AS paid FROM costs_hours WHERE $during
  ) AS hours
  GROUP BY model
) AS c ON c.model = t.model
ORDER BY t.model
