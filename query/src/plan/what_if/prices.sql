books AS (
  SELECT CAST(p.effective_from AS BIGINT) AS from_us, CAST(p.effective_to AS BIGINT) AS to_us, p.usd_per_hour, p.price_per_hour, p.currency,
    p.confidence, p.as_of, p.source, p.book
  FROM prices AS p
  JOIN asked AS a ON p.host_type = a.host_type AND p.region = a.region AND p."option" = a."option"
  WHERE p.zone IS NULL
),
rates AS (
  SELECT currency, CAST(effective_from AS BIGINT) AS from_us, CAST(effective_to AS BIGINT) AS to_us, usd_per_unit, as_of, source
  FROM exchange_rates
  WHERE currency IN (SELECT currency FROM books)
),
reductions AS (
  SELECT d.host_type, d.region, CAST(d.effective_from AS BIGINT) AS from_us, CAST(d.effective_to AS BIGINT) AS to_us, d.factor, d.contract, d.as_of,
    d.source, CAST(round(CAST(d.factor AS DOUBLE) * 1000000.0) AS BIGINT) AS millionths
  FROM discounts AS d
  JOIN asked AS a ON d."option" = a."option"
  WHERE (d.host_type IS NULL OR d.host_type = a.host_type) AND (d.region IS NULL OR d.region = a.region)
),
edges AS (
  -- what changes within a minute holds from the next one on, as in `node_cost`
  SELECT DISTINCT (at + 59999999) / 60000000 * 60000000 AS at
  FROM (
    SELECT unnest(make_array(from_us, to_us)) AS at FROM books
    UNION ALL
    SELECT unnest(make_array(from_us, to_us)) AS at FROM rates
    UNION ALL
    SELECT unnest(make_array(from_us, to_us)) AS at FROM reductions
    UNION ALL
    SELECT CAST($from AS BIGINT)
  )
  WHERE at >= $from AND at < $to
),
pieces AS (
  SELECT at, coalesce(lead(at) OVER (ORDER BY at), CAST($to AS BIGINT)) AS until_us FROM edges
),
priced AS (
  SELECT e.at, e.until_us, coalesce(p.usd_per_hour, in_usd(p.price_per_hour, r.usd_per_unit)) AS usd_per_hour,
    CASE WHEN p.usd_per_hour IS NULL AND r.currency IS NULL THEN p.currency END AS without_rate, p.confidence, p.as_of, p.source,
    p.currency || ' at ' || CAST(CAST(r.usd_per_unit AS DOUBLE) AS VARCHAR) || ' USD by ' || r.source || coalesce(', as of ' || r.as_of, '') AS rate,
    d.millionths, CAST(CAST(d.factor AS DOUBLE) AS VARCHAR) || ' by ' || d.contract || ' (' || d.source || coalesce(', as of ' || d.as_of, '') || ')' AS discount,
    row_number() OVER (
      PARTITION BY e.at
      -- the order of `node_cost`: an operator's own book before what comes with Tokenwatt, then the newest and the firmest
      ORDER BY p.book IS NULL, p.from_us DESC, CASE p.confidence WHEN 'measured' THEN 0 WHEN 'published' THEN 1 WHEN 'secondary' THEN 2 ELSE 3 END,
        p.book, p.usd_per_hour, d.host_type IS NULL, d.region IS NULL, d.from_us DESC, d.contract
    ) AS place
  FROM pieces AS e
  LEFT JOIN books AS p ON p.from_us <= e.at AND (p.to_us IS NULL OR p.to_us > e.at)
  LEFT JOIN rates AS r ON r.currency = p.currency AND r.from_us <= e.at AND (r.to_us IS NULL OR r.to_us > e.at)
  LEFT JOIN reductions AS d ON d.from_us <= e.at AND (d.to_us IS NULL OR d.to_us > e.at)
)
SELECT at, until_us, usd_per_hour, coalesce(money_scale(usd_per_hour, millionths, CAST(1000000 AS BIGINT)), usd_per_hour) AS effective_usd_per_hour,
  without_rate, confidence, as_of, source, rate, discount
FROM priced
WHERE place = 1
ORDER BY at
