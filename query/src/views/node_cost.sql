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
listed AS (
  -- the minutes in which an inventory has a host; where lists differ, as the newest of those that have it in that minute does
  SELECT *, first_value(list) OVER (PARTITION BY host_id, minute ORDER BY as_of DESC NULLS LAST, source, list, from_us) AS newest
  FROM (
    SELECT *, unnest(range(from_us / 60000000, (to_us + 59999999) / 60000000)) AS minute
    FROM (
      SELECT i.host_id, i.region, i.zone, i.host_type, i."option", i.list, i.as_of, i.source,
        greatest(CAST(i.effective_from AS BIGINT), CAST(k.time AS BIGINT)) AS from_us,
        least(CAST(coalesce(i.effective_to, k.until) AS BIGINT), CAST(k.until AS BIGINT)) AS to_us
      FROM inventory AS i
      JOIN kept_hours AS k ON i.effective_from < k.until AND (i.effective_to IS NULL OR i.effective_to > k.time)
    )
  )
),
told AS (
  -- minutes of which somebody else tells, from and to when he says that they are paid for: 1 a bill, 2 a list, 3 a bill in a currency without a rate
  SELECT CASE WHEN paid_us IS NULL THEN 3 ELSE 1 END AS word, host_id, region, zone, host_type, "option", list_usd, effective_usd, billed_usd, contracted_usd, paid_us, from_us, to_us, unrated,
    unnest(range(hour * 60, hour * 60 + 60)) AS minute
  FROM (
    SELECT host_id, region, zone, host_type, "option", list_usd, effective_usd, billed_usd, contracted_usd, full_from_us AS from_us, full_to_us AS to_us,
      paid_us, without_rate AS unrated, CAST(time AS BIGINT) / 3600000000 AS hour
    FROM charged_hours
  )
  UNION ALL
  SELECT 2, host_id, region, zone, host_type, "option", CAST(NULL AS DECIMAL(38,12)), CAST(NULL AS DECIMAL(38,12)), CAST(NULL AS DECIMAL(38,12)),
    CAST(NULL AS DECIMAL(38,12)), CAST(NULL AS BIGINT), from_us, to_us, CAST(NULL AS VARCHAR), minute
  FROM listed
  WHERE list IS NOT DISTINCT FROM newest
),
heard AS (
  SELECT 0 AS word, minute, host_id, region, zone, host_type, model, requests, input_tokens, output_tokens, seen_us AS us, from_us, to_us,
    CAST(NULL AS VARCHAR) AS "option", CAST(NULL AS DECIMAL(38,12)) AS list_usd, CAST(NULL AS DECIMAL(38,12)) AS effective_usd,
    CAST(NULL AS DECIMAL(38,12)) AS billed_usd, CAST(NULL AS DECIMAL(38,12)) AS contracted_usd, CAST(NULL AS BIGINT) AS paid_us, CAST(NULL AS VARCHAR) AS unrated
  FROM seen
  UNION ALL
  SELECT word, minute, host_id, region, zone, host_type, CAST(NULL AS VARCHAR), CAST(0 AS BIGINT), CAST(NULL AS BIGINT), CAST(NULL AS BIGINT),
    CASE WHEN minute * 60000000 < to_us AND minute * 60000000 + 60000000 > from_us
      THEN least(to_us, minute * 60000000 + 60000000) - greatest(from_us, minute * 60000000) END,
    CAST(NULL AS BIGINT), CAST(NULL AS BIGINT), "option", list_usd, effective_usd, billed_usd, contracted_usd, paid_us, unrated
  FROM told
),
hosts AS (
  -- minutes that are paid for and in which nothing was heard of the host stand beside those in which something was
  SELECT minute, host_id, coalesce(max(CASE WHEN word = 0 THEN region END), max(CASE WHEN word = 1 THEN region END), max(region)) AS region,
    coalesce(max(CASE WHEN word = 0 THEN zone END), max(CASE WHEN word = 1 THEN zone END), max(zone)) AS zone,
    coalesce(max(CASE WHEN word = 0 THEN host_type END), max(CASE WHEN word = 1 THEN host_type END), max(host_type)) AS host_type,
    max(model) AS model, max(requests) AS requests, max(input_tokens) AS input_tokens, max(output_tokens) AS output_tokens,
    coalesce(max(CASE WHEN word = 0 THEN us END), least(coalesce(sum(CASE WHEN word = 1 THEN us END), sum(us)), CAST(60000000 AS BIGINT))) AS seen_us,
    min(word) > 0 AS is_silent, max(CASE WHEN us IS NOT NULL THEN word END) = 2 AS is_listed,
    coalesce(max(from_us), minute * 60000000) AS from_us, coalesce(max(to_us), minute * 60000000 + 60000000) AS to_us,
    max(CASE WHEN word = 1 THEN "option" END) AS bill_option, max(CASE WHEN word = 2 AND us IS NOT NULL THEN "option" END) AS listed_option,
    max(list_usd) AS list_usd, max(effective_usd) AS effective_usd, max(billed_usd) AS billed_usd, max(contracted_usd) AS contracted_usd, max(paid_us) AS paid_us, max(unrated) AS unrated
  FROM heard
  GROUP BY minute, host_id
  -- of an hour that a bill charges in part, nobody knows which minutes, and no list does
  HAVING count(us) > 0 AND NOT (min(word) = 1 AND count(CASE WHEN word = 1 THEN us END) = 0)
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
  -- an interval that ends where an hour begins says nothing of that hour
  SELECT host_id, capacity_type, CAST(time AS BIGINT) / 3600000000 AS from_hour,
    greatest(CAST(time AS BIGINT), CAST(coalesce(last_seen, time) AS BIGINT) - 1) / 3600000000 AS to_hour, max(coalesce(last_seen, time)) AS last_seen
  FROM nodes
  WHERE capacity_type <> 'unknown'
  GROUP BY host_id, capacity_type, CAST(time AS BIGINT) / 3600000000, greatest(CAST(time AS BIGINT), CAST(coalesce(last_seen, time) AS BIGINT) - 1) / 3600000000
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
    )) AS charged_us, e.wall_us IS NOT NULL AS has_engine, h.is_silent, h.is_listed, h.bill_option, h.listed_option,
    h.list_usd, h.effective_usd, h.billed_usd, h.contracted_usd, h.paid_us, h.unrated,
    h.requests, h.input_tokens, h.output_tokens
  FROM hosts AS h
  LEFT JOIN engines AS e ON e.minute = h.minute AND e.host_id = h.host_id
),
shared AS (
  -- what a bill leaves of an hour is for the time that it charges, or for what was seen where that is longer: an hour costs no more than its bill
  SELECT *, sum(charged_us) OVER (PARTITION BY host_id, minute / 60 ORDER BY minute) AS until_us,
    coalesce(nullif(greatest(paid_us, sum(charged_us) OVER (PARTITION BY host_id, minute / 60)), 0), CAST(3600000000 AS BIGINT)) AS rated_us
  FROM metered
),
rated AS (
  -- a minute's part is what was shared by its end less what was by its start, so that minutes sum to their hour
  SELECT *,
    CAST(money_scale(list_usd, until_us, rated_us) - money_scale(list_usd, until_us - charged_us, rated_us) AS DECIMAL(38,12)) AS list_cost_usd,
    CAST(money_scale(effective_usd, until_us, rated_us) - money_scale(effective_usd, until_us - charged_us, rated_us) AS DECIMAL(38,12)) AS effective_cost_usd,
    CAST(money_scale(billed_usd, until_us, rated_us) - money_scale(billed_usd, until_us - charged_us, rated_us) AS DECIMAL(38,12)) AS billed_cost_usd,
    CAST(money_scale(contracted_usd, until_us, rated_us) - money_scale(contracted_usd, until_us - charged_us, rated_us) AS DECIMAL(38,12)) AS contracted_cost_usd
  FROM shared
),
charged AS (
  SELECT m.*, coalesce(m.bill_option, c.capacity_type, m.listed_option, 'on_demand') AS "option",
    CASE WHEN m.bill_option IS NOT NULL THEN 'bill' WHEN c.capacity_type IS NOT NULL THEN 'telemetry' WHEN m.listed_option IS NOT NULL THEN 'inventory' ELSE 'assumed' END AS option_source,
    -- the bill's rate of that hour: what the price book would hold under that option
    money_scale(CASE WHEN m.bill_option = 'on_demand' THEN m.list_usd ELSE m.effective_usd END, CAST(3600000000 AS BIGINT), m.rated_us) AS billed_usd_per_hour,
    CASE WHEN m.bill_option = 'on_demand' THEN m.list_cost_usd ELSE m.effective_cost_usd END AS rate_cost_usd,
    -- the option whose price is the list's, where it is another one
    CASE WHEN coalesce(m.bill_option, c.capacity_type, m.listed_option, 'on_demand') <> 'on_demand' THEN 'on_demand' END AS beside,
    c.last_seen AS capacity_seen
  FROM rated AS m
  -- what a host said of itself in that hour
  LEFT JOIN capacity AS c ON c.host_id = m.host_id AND c.from_hour <= m.minute / 60 AND c.to_hour >= m.minute / 60
),
terms AS (
  SELECT host_type, region, "option", effective_from, effective_to, factor, contract, CAST(round(CAST(factor AS DOUBLE) * 1000000.0) AS BIGINT) AS millionths
  FROM discounts
),
priced AS (
  SELECT c.*, p.as_of, p.confidence, p.effective_from,
    coalesce(p.usd_per_hour, in_usd(p.price_per_hour, r.usd_per_unit)) AS usd_per_hour,
    -- a price that no rate turns into dollars is none
    CASE WHEN p.usd_per_hour IS NULL AND r.currency IS NULL THEN p.currency END AS without_rate,
    p.source || coalesce('; ' || p.currency || ' at ' || CAST(CAST(r.usd_per_unit AS DOUBLE) AS VARCHAR) || ' USD by ' || r.source, '') AS source,
    -- what a commitment or spot stands beside: the book's price on demand, and what is negotiated of it
    CASE WHEN c."option" = 'on_demand' THEN coalesce(p.usd_per_hour, in_usd(p.price_per_hour, r.usd_per_unit))
      ELSE coalesce(l.usd_per_hour, in_usd(l.price_per_hour, lr.usd_per_unit)) END AS list_per_hour,
    CASE WHEN c."option" IN ('savings_plan', 'reserved') THEN ld.millionths ELSE d.millionths END AS contract_millionths,
    d.millionths, '; effective × ' || CAST(CAST(d.factor AS DOUBLE) AS VARCHAR) || ' by ' || d.contract AS discount,
    row_number() OVER (
      PARTITION BY c.minute, c.host_id
      -- the newest word of a host on its capacity; then an operator's own book before what comes with Tokenwatt, a zone's price before its
      -- region's, then the newest and the firmest
      ORDER BY c.capacity_seen DESC, c."option", p.book IS NULL, p.zone IS NULL, p.effective_from DESC,
        CASE p.confidence WHEN 'measured' THEN 0 WHEN 'published' THEN 1 WHEN 'secondary' THEN 2 ELSE 3 END, p.book, p.usd_per_hour,
        -- a discount of a type before one of all, of a region before one of all, then the newest
        d.host_type IS NULL, d.region IS NULL, d.effective_from DESC, d.contract,
        l.book IS NULL, l.zone IS NULL, l.effective_from DESC,
        CASE l.confidence WHEN 'measured' THEN 0 WHEN 'published' THEN 1 WHEN 'secondary' THEN 2 ELSE 3 END, l.book, l.usd_per_hour,
        ld.host_type IS NULL, ld.region IS NULL, ld.effective_from DESC, ld.contract
    ) AS place
  FROM charged AS c
  LEFT JOIN prices AS p ON p.host_type = c.host_type AND p.region = c.region AND p."option" = c."option"
    AND (p.zone IS NULL OR p.zone = c.zone)
    AND CAST(p.effective_from AS BIGINT) <= c.minute * 60000000
    AND (p.effective_to IS NULL OR CAST(p.effective_to AS BIGINT) > c.minute * 60000000)
  LEFT JOIN exchange_rates AS r ON r.currency = p.currency AND CAST(r.effective_from AS BIGINT) <= c.minute * 60000000
    AND (r.effective_to IS NULL OR CAST(r.effective_to AS BIGINT) > c.minute * 60000000)
  LEFT JOIN terms AS d ON d."option" = p."option" AND (d.host_type IS NULL OR d.host_type = p.host_type) AND (d.region IS NULL OR d.region = p.region)
    AND CAST(d.effective_from AS BIGINT) <= c.minute * 60000000
    AND (d.effective_to IS NULL OR CAST(d.effective_to AS BIGINT) > c.minute * 60000000)
  LEFT JOIN prices AS l ON l.host_type = c.host_type AND l.region = c.region AND l."option" = c.beside
    AND (l.zone IS NULL OR l.zone = c.zone)
    AND CAST(l.effective_from AS BIGINT) <= c.minute * 60000000
    AND (l.effective_to IS NULL OR CAST(l.effective_to AS BIGINT) > c.minute * 60000000)
  LEFT JOIN exchange_rates AS lr ON lr.currency = l.currency AND CAST(lr.effective_from AS BIGINT) <= c.minute * 60000000
    AND (lr.effective_to IS NULL OR CAST(lr.effective_to AS BIGINT) > c.minute * 60000000)
  LEFT JOIN terms AS ld ON ld."option" = c.beside AND (ld.host_type IS NULL OR ld.host_type = c.host_type)
    AND (ld.region IS NULL OR ld.region = c.region) AND CAST(ld.effective_from AS BIGINT) <= c.minute * 60000000
    AND (ld.effective_to IS NULL OR CAST(ld.effective_to AS BIGINT) > c.minute * 60000000)
)
SELECT arrow_cast(c.minute * 60000000, 'Timestamp(Microsecond, Some("UTC"))') AS time, c.region, c.model,
  c.host_id, c.host_type, c."option", coalesce(c.usd_per_hour, c.billed_usd_per_hour) AS usd_per_hour, c.charged_us,
  CASE WHEN c.usd_per_hour IS NULL THEN c.rate_cost_usd ELSE money_scale(c.usd_per_hour, c.charged_us, CAST(3600000000 AS BIGINT)) END AS cost_usd,
  CASE
    WHEN c.usd_per_hour IS NULL AND c.billed_usd_per_hour IS NULL THEN 'no price'
    ELSE CASE
      WHEN c.usd_per_hour IS NULL THEN 'bill, ' || replace(c."option", '_', '-')
      WHEN c.option_source = 'assumed' THEN 'list, assumed on-demand'
      ELSE 'list, ' || replace(c."option", '_', '-')
    END || CASE WHEN c.effective_cost_usd IS NULL AND c.usd_per_hour IS NOT NULL THEN coalesce(c.discount, '') ELSE '' END
      || coalesce('; charges in ' || c.unrated || ' have no rate', '')
  END AS basis,
  c.as_of AS price_as_of,
  CASE WHEN c.usd_per_hour IS NULL AND c.billed_usd_per_hour IS NOT NULL THEN 'measured' ELSE c.confidence END AS price_confidence,
  CASE WHEN c.usd_per_hour IS NULL AND c.billed_usd_per_hour IS NOT NULL THEN 'bill' ELSE c.source END AS price_source,
  c.has_engine, c.requests, c.input_tokens, c.output_tokens,
  CASE WHEN c.has_engine THEN 'engine window' WHEN c.is_silent THEN 'whole minute' ELSE 'between sightings' END AS method,
  c.option_source, c.effective_from AS price_effective_from, c.is_silent,
  coalesce(c.list_cost_usd, money_scale(c.list_per_hour, c.charged_us, CAST(3600000000 AS BIGINT))) AS list_cost_usd,
  coalesce(c.effective_cost_usd, money_scale(money_scale(c.usd_per_hour, c.millionths, CAST(1000000 AS BIGINT)), c.charged_us, CAST(3600000000 AS BIGINT)))
    AS effective_cost_usd,
  c.billed_cost_usd, c.without_rate, c.is_listed,
  -- as a bill says it; else what is paid beside a commitment is what is negotiated of the list, elsewhere a bill's effective cost, or the price
  CASE
    WHEN c.contracted_cost_usd IS NOT NULL THEN c.contracted_cost_usd
    WHEN c."option" IN ('savings_plan', 'reserved') THEN coalesce(
      money_scale(c.list_cost_usd, coalesce(c.contract_millionths, CAST(1000000 AS BIGINT)), CAST(1000000 AS BIGINT)),
      money_scale(money_scale(c.list_per_hour, coalesce(c.contract_millionths, CAST(1000000 AS BIGINT)), CAST(1000000 AS BIGINT)), c.charged_us, CAST(3600000000 AS BIGINT)))
    ELSE coalesce(c.effective_cost_usd,
      money_scale(money_scale(c.usd_per_hour, coalesce(c.contract_millionths, CAST(1000000 AS BIGINT)), CAST(1000000 AS BIGINT)), c.charged_us, CAST(3600000000 AS BIGINT)))
  END AS contracted_cost_usd
FROM priced AS c
WHERE c.place = 1
