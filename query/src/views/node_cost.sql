WITH sightings AS (
  SELECT CAST(time AS BIGINT) AS at, region, zone, host_id, host_type, CAST(NULL AS VARCHAR) AS model,
    1 AS is_sample, CAST(NULL AS BIGINT) AS input_tokens, CAST(NULL AS BIGINT) AS output_tokens
  FROM devices
  WHERE host_id IS NOT NULL
  UNION ALL
  SELECT CAST(time AS BIGINT), region, zone, host_id, host_type, model, 0, input_tokens, output_tokens
  FROM requests
  WHERE host_id IS NOT NULL AND measured_at = 'server'
),
ordered AS (
  -- a host is sampled where a sample of it lies within two minutes, the longest step between two that is believed
  SELECT *, (at - 1) / 60000000 AS minute, lag(at) OVER (PARTITION BY host_id ORDER BY at) AS at_before,
    max(is_sample) OVER (PARTITION BY host_id ORDER BY at RANGE BETWEEN 120000000 PRECEDING AND 120000000 FOLLOWING) AS is_near_sample
  FROM sightings
),
marked AS (
  SELECT *, min(is_near_sample) OVER (PARTITION BY host_id, minute) AS is_sampled FROM ordered
),
stepped AS (
  -- a minute that counts as a whole is left out of the step after it
  SELECT *, CASE
      WHEN at - at_before > 120000000 THEN NULL
      WHEN lag(is_sampled) OVER (PARTITION BY host_id ORDER BY at) = 0 THEN greatest(at_before, ((at_before - 1) / 60000000 + 1) * 60000000)
      ELSE at_before
    END AS step_from
  FROM marked
),
seen AS (
  SELECT minute, host_id, max(region) AS region, max(zone) AS zone, max(host_type) AS host_type,
    CASE WHEN count(DISTINCT model) = 1 THEN max(model) END AS model,
    sum(1 - is_sample) AS requests, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
    -- a host without samples is seen by its requests alone and counts for the whole minute
    CASE WHEN min(is_sampled) = 1 THEN coalesce(sum(at - step_from), 0) ELSE 60000000 END AS seen_us,
    CASE WHEN min(is_sampled) = 1 THEN min(step_from) END AS from_us, CASE WHEN min(is_sampled) = 1 THEN max(CASE WHEN step_from IS NOT NULL THEN at END) END AS to_us
  FROM stepped
  GROUP BY minute, host_id
),
paid AS (
  -- what a bill charges for a host's own time, hour by hour; nothing else stands for a host longer than a month
  SELECT *, unnest(range(from_us / 3600000000, (to_us + 3599999999) / 3600000000)) AS hour
  FROM (
    SELECT host_id, CAST(time AS BIGINT) AS from_us, CAST(charge_to AS BIGINT) AS to_us,
      max(region) AS region, max(zone) AS zone, max(host_type) AS host_type,
      first_value("option" ORDER BY quantity DESC NULLS LAST, "option") AS "option",
      sum(list_usd) AS list_cost, sum(effective_usd) AS effective_cost, sum(billed_usd) AS billed_cost,
      -- what is charged beside a host's time by the hour, such as its image, makes no hour longer
      coalesce(
        CAST(least(round(sum(quantity) * 3600000000.0), CAST(CAST(charge_to AS BIGINT) - CAST(time AS BIGINT) AS DOUBLE)) AS BIGINT),
        CAST(charge_to AS BIGINT) - CAST(time AS BIGINT)
      ) AS paid_us
    FROM (
      -- another currency by the rate that held when the charge began; without one it is in no sum
      SELECT b.host_id, b.time, b.charge_to, b.region, b.zone, b.host_type, b."option", b.quantity,
        money_scale(b.list_cost, coalesce(r.billionths, CAST(1000000000 AS BIGINT)), CAST(1000000000 AS BIGINT)) AS list_usd,
        money_scale(b.effective_cost, coalesce(r.billionths, CAST(1000000000 AS BIGINT)), CAST(1000000000 AS BIGINT)) AS effective_usd,
        money_scale(b.billed_cost, coalesce(r.billionths, CAST(1000000000 AS BIGINT)), CAST(1000000000 AS BIGINT)) AS billed_usd
      FROM billing AS b
      LEFT JOIN (
        SELECT currency, effective_from, effective_to, source, usd_per_unit, CAST(round(CAST(usd_per_unit AS DOUBLE) * 1000000000.0) AS BIGINT) AS billionths
        FROM exchange_rates
      ) AS r ON r.currency = b.currency AND r.effective_from <= b.time AND (r.effective_to IS NULL OR r.effective_to > b.time)
      WHERE b.charge_kind = 'host_time' AND (b.currency = 'USD' OR r.currency IS NOT NULL)
        AND b.charge_to > b.time AND b.charge_to <= b.time + INTERVAL '32 days'
    )
    GROUP BY host_id, time, charge_to
  )
),
bills AS (
  SELECT host_id, hour, first_value("option" ORDER BY paid_us DESC, from_us) AS "option", sum(list_cost) AS list_cost,
    sum(effective_cost) AS effective_cost, sum(billed_cost) AS billed_cost, sum(paid_us) AS paid_us
  FROM paid
  GROUP BY host_id, hour
),
hosts AS (
  -- minutes that were paid for in full and in which nothing was heard of the host stand beside those in which something was
  SELECT minute, host_id, coalesce(max(CASE WHEN seen_us IS NOT NULL THEN region END), max(region)) AS region,
    coalesce(max(CASE WHEN seen_us IS NOT NULL THEN zone END), max(zone)) AS zone,
    coalesce(max(CASE WHEN seen_us IS NOT NULL THEN host_type END), max(host_type)) AS host_type, max(model) AS model,
    max(requests) AS requests, max(input_tokens) AS input_tokens, max(output_tokens) AS output_tokens,
    coalesce(max(seen_us), CAST(60000000 AS BIGINT)) AS seen_us, count(seen_us) = 0 AS is_silent,
    coalesce(max(from_us), minute * 60000000) AS from_us, coalesce(max(to_us), minute * 60000000 + 60000000) AS to_us
  FROM (
    SELECT minute, host_id, region, zone, host_type, model, requests, input_tokens, output_tokens, seen_us, from_us, to_us FROM seen
    UNION ALL
    SELECT minute, host_id, region, zone, host_type, CAST(NULL AS VARCHAR), CAST(0 AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT),
      CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT)
    FROM (SELECT *, unnest(range(hour * 60, hour * 60 + 60)) AS minute FROM paid WHERE paid_us >= to_us - from_us)
    WHERE minute * 60000000 >= from_us AND minute * 60000000 < to_us
  )
  GROUP BY minute, host_id
),
windows AS (
  -- replicas are sampled at instants of their own: what a window adds to those that ended before it
  SELECT minute, host_id, model, wall_us, to_us,
    greatest(from_us, coalesce(
      max(to_us) OVER (PARTITION BY host_id ORDER BY to_us, from_us, instance ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), from_us
    )) AS from_us
  FROM engine_minutes
),
engines AS (
  SELECT minute, host_id, least(sum(wall_us), sum(to_us - from_us)) AS wall_us, min(from_us) AS from_us, max(to_us) AS to_us,
    CASE WHEN count(DISTINCT model) = 1 THEN max(model) END AS model
  FROM windows
  GROUP BY minute, host_id
),
capacity AS (
  SELECT host_id, capacity_type, CAST(time AS BIGINT) / 3600000000 AS from_hour, CAST(coalesce(last_seen, time) AS BIGINT) / 3600000000 AS to_hour,
    max(coalesce(last_seen, time)) AS last_seen
  FROM nodes
  WHERE capacity_type <> 'unknown'
  GROUP BY host_id, capacity_type, CAST(time AS BIGINT) / 3600000000, CAST(coalesce(last_seen, time) AS BIGINT) / 3600000000
),
metered AS (
  SELECT h.minute, h.region, h.zone, h.host_id, h.host_type, coalesce(e.model, h.model) AS model,
    -- a step over a minute's edge is charged in the minute in which it ends, and not again in those in which it began
    -- in a minute of which nothing was heard, nor what the step over it covers
    coalesce(e.wall_us, greatest(CAST(0 AS BIGINT), h.seen_us
      - greatest(CAST(0 AS BIGINT), h.to_us - least(
          coalesce(min(e.from_us) OVER (PARTITION BY h.host_id ORDER BY h.minute ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING), h.to_us),
          CASE WHEN h.is_silent THEN coalesce(
            min(CASE WHEN NOT h.is_silent THEN h.from_us END) OVER (PARTITION BY h.host_id ORDER BY h.minute RANGE BETWEEN 1 FOLLOWING AND 2 FOLLOWING), h.to_us
          ) ELSE h.to_us END
        ))
      - greatest(CAST(0 AS BIGINT), coalesce(max(e.to_us) OVER (PARTITION BY h.host_id ORDER BY h.minute ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING), h.from_us) - h.from_us)
    )) AS charged_us, e.wall_us IS NOT NULL AS has_engine, h.is_silent,
    h.requests, h.input_tokens, h.output_tokens
  FROM hosts AS h
  LEFT JOIN engines AS e ON e.minute = h.minute AND e.host_id = h.host_id
),
charged AS (
  SELECT m.*, coalesce(b."option", c.capacity_type, 'on_demand') AS "option",
    CASE WHEN b."option" IS NOT NULL THEN 'bill' WHEN c.capacity_type IS NOT NULL THEN 'telemetry' ELSE 'assumed' END AS option_source,
    -- the bill's rate of that hour: what the price book would hold under that option
    money_scale(CASE WHEN b."option" = 'on_demand' THEN b.list_cost ELSE b.effective_cost END, CAST(3600000000 AS BIGINT), b.paid_us) AS billed_usd_per_hour,
    money_scale(b.list_cost, m.charged_us, b.paid_us) AS list_cost_usd,
    money_scale(b.effective_cost, m.charged_us, b.paid_us) AS effective_cost_usd,
    money_scale(b.billed_cost, m.charged_us, b.paid_us) AS billed_cost_usd,
    c.last_seen AS capacity_seen
  FROM metered AS m
  -- what a host said of itself in that hour
  LEFT JOIN capacity AS c ON c.host_id = m.host_id AND c.from_hour <= m.minute / 60 AND c.to_hour >= m.minute / 60
  LEFT JOIN bills AS b ON b.host_id = m.host_id AND b.hour = m.minute / 60
),
priced AS (
  SELECT c.*, p.as_of, p.confidence, p.effective_from,
    coalesce(p.usd_per_hour, money_scale(p.price_per_hour, r.billionths, CAST(1000000000 AS BIGINT))) AS usd_per_hour,
    -- a price that no rate turns into dollars is none
    CASE WHEN p.usd_per_hour IS NULL AND r.currency IS NULL THEN p.currency END AS without_rate,
    p.source || coalesce('; ' || p.currency || ' at ' || CAST(CAST(r.usd_per_unit AS DOUBLE) AS VARCHAR) || ' USD by ' || r.source, '') AS source,
    d.millionths, '; effective × ' || CAST(CAST(d.factor AS DOUBLE) AS VARCHAR) || ' by ' || d.contract AS discount,
    row_number() OVER (
      PARTITION BY c.minute, c.host_id
      -- the newest word of a host on its capacity; then an operator's own book before what comes with Tokenwatt, a zone's price before its
      -- region's, then the newest and the firmest
      ORDER BY c.capacity_seen DESC, c."option", p.book IS NULL, p.zone IS NULL, p.effective_from DESC,
        CASE p.confidence WHEN 'measured' THEN 0 WHEN 'published' THEN 1 WHEN 'secondary' THEN 2 ELSE 3 END, p.book, p.usd_per_hour,
        -- a discount of a type before one of all, of a region before one of all, then the newest
        d.host_type IS NULL, d.region IS NULL, d.effective_from DESC, d.contract
    ) AS place
  FROM charged AS c
  LEFT JOIN prices AS p ON p.host_type = c.host_type AND p.region = c.region AND p."option" = c."option"
    AND (p.zone IS NULL OR p.zone = c.zone)
    AND CAST(p.effective_from AS BIGINT) <= c.minute * 60000000
    AND (p.effective_to IS NULL OR CAST(p.effective_to AS BIGINT) > c.minute * 60000000)
  LEFT JOIN (
    SELECT currency, effective_from, effective_to, source, usd_per_unit, CAST(round(CAST(usd_per_unit AS DOUBLE) * 1000000000.0) AS BIGINT) AS billionths
    FROM exchange_rates
  ) AS r ON r.currency = p.currency AND CAST(r.effective_from AS BIGINT) <= c.minute * 60000000
    AND (r.effective_to IS NULL OR CAST(r.effective_to AS BIGINT) > c.minute * 60000000)
  LEFT JOIN (
    SELECT host_type, region, "option", effective_from, effective_to, factor, contract, CAST(round(CAST(factor AS DOUBLE) * 1000000.0) AS BIGINT) AS millionths
    FROM discounts
  ) AS d ON d."option" = p."option" AND (d.host_type IS NULL OR d.host_type = p.host_type) AND (d.region IS NULL OR d.region = p.region)
    AND CAST(d.effective_from AS BIGINT) <= c.minute * 60000000
    AND (d.effective_to IS NULL OR CAST(d.effective_to AS BIGINT) > c.minute * 60000000)
)
SELECT arrow_cast(c.minute * 60000000, 'Timestamp(Microsecond, Some("UTC"))') AS time, c.region, c.model,
  c.host_id, c.host_type, c."option", coalesce(c.usd_per_hour, c.billed_usd_per_hour) AS usd_per_hour, c.charged_us,
  money_scale(coalesce(c.usd_per_hour, c.billed_usd_per_hour), c.charged_us, CAST(3600000000 AS BIGINT)) AS cost_usd,
  CASE
    WHEN c.usd_per_hour IS NULL AND c.billed_usd_per_hour IS NULL THEN 'no price'
    WHEN c.usd_per_hour IS NULL THEN 'bill, ' || replace(c."option", '_', '-')
    WHEN c.option_source = 'assumed' THEN 'list, assumed on-demand'
    ELSE 'list, ' || replace(c."option", '_', '-')
  END || CASE WHEN c.effective_cost_usd IS NULL AND c.usd_per_hour IS NOT NULL THEN coalesce(c.discount, '') ELSE '' END AS basis,
  c.as_of AS price_as_of,
  CASE WHEN c.usd_per_hour IS NULL AND c.billed_usd_per_hour IS NOT NULL THEN 'measured' ELSE c.confidence END AS price_confidence,
  CASE WHEN c.usd_per_hour IS NULL AND c.billed_usd_per_hour IS NOT NULL THEN 'bill' ELSE c.source END AS price_source,
  c.has_engine, c.requests, c.input_tokens, c.output_tokens,
  CASE WHEN c.has_engine THEN 'engine window' WHEN c.is_silent THEN 'whole minute' ELSE 'between sightings' END AS method,
  c.option_source, c.effective_from AS price_effective_from, c.is_silent,
  c.list_cost_usd,
  coalesce(c.effective_cost_usd, money_scale(money_scale(c.usd_per_hour, c.millionths, CAST(1000000 AS BIGINT)), c.charged_us, CAST(3600000000 AS BIGINT)))
    AS effective_cost_usd,
  c.billed_cost_usd, c.without_rate
FROM priced AS c
WHERE c.place = 1
