"""The questions' answers from the raw tables, in DuckDB's SQL. They know nothing of Tokenwatt's views: minutes are told by the
fleet's samples at full minutes, money is price times time, energy the rise of a counter.
"""

# what each replica did in each minute, what it cost, and the tokens that left it
ENGINE = """WITH marks AS (
  SELECT host_id, any_value(region) AS region, any_value(model) AS model, any_value(host_type) AS host_type,
    epoch_us(time) // 60000000 AS minute, any_value(busy_us) AS busy_us, any_value(padding_us) AS padding_us
  FROM devices WHERE kind = 'engine' AND busy_us IS NOT NULL AND epoch_us(time) % 60000000 = 0
  GROUP BY host_id, epoch_us(time) // 60000000),
minutes AS (
  SELECT a.host_id, a.region, a.model, a.host_type, a.minute, b.busy_us - a.busy_us AS busy_us, b.padding_us - a.padding_us AS padding_us
  FROM marks a JOIN marks b ON b.host_id = a.host_id AND b.minute = a.minute + 1
  WHERE a.minute >= epoch_us(CAST($since AS TIMESTAMPTZ)) // 60000000 AND a.minute < epoch_us(CAST($until AS TIMESTAMPTZ)) // 60000000),
made AS (
  SELECT host_id, (epoch_us(time) - 1) // 60000000 AS minute, sum("count") AS output_tokens, sum(device_us) AS device_us
  FROM tokens GROUP BY ALL),
priced AS (
  SELECT m.*, coalesce(t.output_tokens, 0) AS output_tokens, coalesce(t.device_us, 0) AS device_us,
    (SELECT max(p.usd_per_hour) FROM prices p WHERE p.host_type = m.host_type AND p.region = m.region AND p.option = 'on_demand') / 60 AS usd
  FROM minutes m LEFT JOIN made t ON t.host_id = m.host_id AND t.minute = m.minute)
"""

# joules of each host and minute
ENERGY = """WITH marks AS (
  SELECT host_id, any_value(region) AS region, epoch_us(time) // 60000000 AS minute, max(energy_j) AS joules
  FROM devices WHERE energy_j IS NOT NULL AND epoch_us(time) % 60000000 = 0 GROUP BY host_id, epoch_us(time) // 60000000),
used AS (
  SELECT a.host_id, a.region, a.minute, b.joules - a.joules AS joules
  FROM marks a JOIN marks b ON b.host_id = a.host_id AND b.minute = a.minute + 1
  WHERE a.minute >= epoch_us(CAST($since AS TIMESTAMPTZ)) // 60000000 AND a.minute < epoch_us(CAST($until AS TIMESTAMPTZ)) // 60000000)
"""

ANSWERS = {
    "01-ttft-p99-by-region": """SELECT region, count(*) AS n, quantile_disc(ttft_s, 0.99) AS p99_s, max(ttft_s) AS worst_s
FROM requests WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND measured_at = 'server' AND ttft_s IS NOT NULL GROUP BY region ORDER BY region
""",
    "02-e2e-percentiles-by-model": """SELECT model, measured_at, quantile_disc(e2e_s, 0.5) AS p50_s, quantile_disc(e2e_s, 0.95) AS p95_s
FROM requests WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND e2e_s IS NOT NULL GROUP BY ALL ORDER BY ALL
""",
    "03-error-share-by-region": """SELECT region, count(*) AS calls, count(*) FILTER (status = 'error') AS failed, count(*) FILTER (status = 'error') / count(*) AS share
FROM requests WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND measured_at = 'server' GROUP BY region ORDER BY region
""",
    "04-calls-per-minute": """SELECT date_trunc('minute', time) AS minute, count(*) AS calls
FROM requests WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND measured_at = 'server' GROUP BY minute ORDER BY minute
""",
    "05-tokens-per-second": """SELECT date_trunc('minute', time) AS minute, sum("count") / 60 AS tokens_per_s FROM tokens WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) GROUP BY minute ORDER BY minute
""",
    "06-itl-p99-by-stall": """WITH gaps AS (
  SELECT time, stall, (epoch_us(time) - lag(epoch_us(time)) OVER (PARTITION BY trace_id, request_span_id, choice ORDER BY "index")) / 1e6 AS gap_s
  FROM tokens)
SELECT stall, count(*) AS n, quantile_disc(gap_s, 0.5) AS p50_s, quantile_disc(gap_s, 0.99) AS p99_s
FROM gaps WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND gap_s IS NOT NULL GROUP BY stall ORDER BY stall
""",
    "07-share-within-half-a-second": """SELECT region, count(*) FILTER (ttft_s <= 0.5) / count(*) AS share
FROM requests WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND measured_at = 'server' AND ttft_s IS NOT NULL GROUP BY region ORDER BY region
""",
    "08-share-from-a-histogram": """SELECT count(*) FILTER (ttft_s <= 0.5) / count(*) AS share, (2 ** (1 / 32) - 1) / (2 ** (1 / 32) + 1) AS within
FROM requests WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND measured_at = 'server' AND ttft_s IS NOT NULL
""",
    "09-slowest-calls": """SELECT trace_id, region, model, e2e_s, output_tokens
FROM requests WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND measured_at = 'server' ORDER BY e2e_s DESC NULLS LAST LIMIT 5
""",
    "10-queue-p95-by-host": """SELECT host_id, quantile_disc(queue_s, 0.95) AS p95_s, avg(queue_s) AS mean_s
FROM requests WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND measured_at = 'server' GROUP BY host_id ORDER BY host_id
""",
    "11-gateway-overhead": """SELECT s.region, count(*) AS calls, avg(g.ttft_s - s.ttft_s) AS added_s
FROM requests g, requests s
WHERE g.measured_at = 'gateway' AND s.measured_at = 'server' AND g.trace_id = s.trace_id AND g.ttft_s IS NOT NULL
  AND g.time >= CAST($since AS TIMESTAMPTZ) AND g.time < CAST($until AS TIMESTAMPTZ)
GROUP BY s.region ORDER BY s.region
""",
    "12-timeline-of-the-slowest": """SELECT "index", time, (epoch_us(time) - lag(epoch_us(time)) OVER (ORDER BY "index")) / 1e6 AS gap_s, stall, batch_size
FROM tokens
WHERE trace_id = (SELECT arg_max(trace_id, e2e_s) FROM requests WHERE measured_at = 'server' AND time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ))
ORDER BY "index"
""",
    "13-calls-by-place": """SELECT measured_at, count(*) AS rows, (SELECT count(DISTINCT trace_id) FROM requests WHERE measured_at = 'server' AND time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ)) AS calls
FROM requests WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) GROUP BY measured_at ORDER BY measured_at
""",
    "14-batch-size-by-host": """SELECT host_id, avg(batch_size) AS mean, max(batch_size) AS largest FROM tokens WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) GROUP BY host_id ORDER BY host_id
""",
    "15-load-by-host": """SELECT host_id, max(running) AS running, avg(waiting) AS waiting, max(kv_usage) AS kv_usage
FROM devices WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND kind = 'engine' GROUP BY host_id ORDER BY host_id
""",
    "16-executing-by-host": """WITH minutes AS (
  SELECT host_id, (epoch_us(time) - 1) // 60000000 AS minute, avg(utilization) AS executing
  FROM devices WHERE kind = 'accelerator' AND utilization IS NOT NULL GROUP BY ALL)
SELECT host_id, avg(executing) AS executing, count(*) AS minutes FROM minutes
WHERE minute >= epoch_us(CAST($since AS TIMESTAMPTZ)) // 60000000 AND minute < epoch_us(CAST($until AS TIMESTAMPTZ)) // 60000000
GROUP BY host_id ORDER BY host_id
""",
    "17-device-time-by-host": ENGINE + """SELECT host_id, sum(device_us) AS requests_us, sum(padding_us) AS padding_us, sum(60000000 - busy_us - padding_us) AS idle_us,
  sum(60000000) AS wall_us
FROM priced GROUP BY host_id ORDER BY host_id
""",
    "18-mostly-idle-replicas": ENGINE + """SELECT host_id, 1 - sum(busy_us + padding_us) / (count(*) * 60000000) AS idle_share
FROM priced GROUP BY host_id HAVING idle_share > 0.5 ORDER BY host_id
""",
    "19-longest-gaps": """WITH gaps AS (
  SELECT trace_id, time, epoch_us(time) - lag(epoch_us(time)) OVER (PARTITION BY trace_id ORDER BY "index") AS gap FROM tokens)
SELECT trace_id, max(gap) / 1e6 AS gap_s FROM gaps WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) GROUP BY trace_id ORDER BY gap_s DESC NULLS LAST, trace_id LIMIT 10
""",
    "20-preempted-share": """SELECT host_id, sum("count") FILTER (stall = 'preempted') / sum("count") AS share FROM tokens WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) GROUP BY host_id ORDER BY host_id
""",
    "21-ttft-of-exponential-histograms": """SELECT region, count(*) AS n, quantile_disc(ttft_s, 0.95) AS p95_s, max(ttft_s) AS worst_s, (2 ** 0.125 - 1) / (2 ** 0.125 + 1) AS within
FROM requests WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND measured_at = 'server' AND ttft_s IS NOT NULL GROUP BY region ORDER BY region
""",
    "22-ttft-of-classic-histograms": """WITH exact AS (
  SELECT region, quantile_disc(ttft_s, 0.95) AS p95
  FROM requests WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND measured_at = 'server' AND ttft_s IS NOT NULL GROUP BY region)
SELECT region, {'lo': list_max(list_filter([0.05, 0.1, 0.25, 0.5, 1.0, 2.5], lambda bound: bound < p95))::DOUBLE,
  'hi': list_min(list_filter([0.05, 0.1, 0.25, 0.5, 1.0, 2.5], lambda bound: bound >= p95))::DOUBLE} AS p95_s
FROM exact ORDER BY region
""",
    "23-failures-by-minute": """SELECT date_trunc('minute', time) AS minute, error_type, count(*) AS calls
FROM requests WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND measured_at = 'server' AND status = 'error' GROUP BY ALL ORDER BY ALL
""",
    "24-p99-from-minutes": """SELECT region, quantile_disc(e2e_s, 0.99) AS p99_s, count(e2e_s) AS n
FROM requests WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND measured_at = 'server' GROUP BY region ORDER BY region
""",
    "25-tokens-by-tenant": """SELECT tenant, count(*) AS calls, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens
FROM requests WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND measured_at = 'server' GROUP BY tenant ORDER BY tenant NULLS LAST
""",
    "26-prompt-lengths": """SELECT model, avg(input_tokens) AS mean, max(input_tokens) AS longest, sum(cached_input_tokens) / sum(input_tokens) AS cached_share
FROM requests WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND measured_at = 'server' GROUP BY model ORDER BY model
""",
    "27-answer-lengths": """SELECT model, avg(output_tokens) AS mean, quantile_disc(output_tokens, 0.9) AS p90, max(output_tokens) AS longest
FROM requests WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND measured_at = 'server' AND output_tokens IS NOT NULL GROUP BY model ORDER BY model
""",
    "28-share-of-calls-by-tenant": """SELECT tenant, count(*) / (SELECT count(*) FROM requests WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND measured_at = 'server') AS share
FROM requests WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND measured_at = 'server' GROUP BY tenant ORDER BY share DESC, tenant
""",
    "29-active-tenants": """SELECT date_trunc('minute', time) AS minute, count(DISTINCT tenant) AS tenants
FROM requests WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND measured_at = 'server' GROUP BY minute ORDER BY minute
""",
    "30-tpot-by-host-type": """WITH each AS (
  SELECT host_type, model, (e2e_s - ttft_s) / (output_tokens - 1) AS tpot_s
  FROM requests WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND measured_at = 'server' AND output_tokens > 1 AND ttft_s IS NOT NULL)
SELECT host_type, model, quantile_disc(tpot_s, 0.5) AS p50_s FROM each GROUP BY ALL ORDER BY ALL
""",
    "31-answer-to-prompt-ratio": """SELECT tenant, sum(output_tokens) / sum(input_tokens) AS ratio
FROM requests WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND measured_at = 'server' AND tenant IS NOT NULL GROUP BY tenant ORDER BY tenant
""",
    "32-tenants-by-region": """SELECT tenant, sum(CAST(region = 'us-east-1' AS INT)) AS us, sum(CAST(region = 'eu-west-1' AS INT)) AS eu,
  sum(CAST(region = 'ap-northeast-1' AS INT)) AS ap
FROM requests WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND measured_at = 'server' GROUP BY tenant ORDER BY tenant NULLS LAST
""",
    "33-environments-compared": """SELECT environment, count(*) AS calls, quantile_disc(e2e_s, 0.95) AS p95_s
FROM requests WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND measured_at = 'server' GROUP BY environment ORDER BY environment
""",
    "34-finish-reasons": """SELECT model, finish_reason, count(*) AS calls
FROM requests WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND measured_at = 'server' GROUP BY ALL ORDER BY model, finish_reason NULLS LAST
""",
    "35-prefill-and-decode": """SELECT t.model, sum(t.device_us) FILTER (t."index" = 0) AS prefill_us, sum(t.device_us) FILTER (t."index" > 0) AS decode_us
FROM tokens t JOIN requests r ON r.trace_id = t.trace_id AND r.span_id = t.request_span_id
WHERE r.time >= CAST($since AS TIMESTAMPTZ) AND r.time < CAST($until AS TIMESTAMPTZ)
GROUP BY t.model ORDER BY t.model
""",
    "36-running-total": """SELECT minute, (SELECT count(*) FROM tokens WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ) AND time < minute + INTERVAL 1 minute) AS so_far
FROM (SELECT DISTINCT date_trunc('minute', time) AS minute FROM tokens WHERE time >= CAST($since AS TIMESTAMPTZ) AND time < CAST($until AS TIMESTAMPTZ)) ORDER BY minute
""",
    "37-cost-by-host": ENGINE + """SELECT host_id, host_type, 'on_demand' AS "option", sum(usd) AS usd, max(usd * 60) AS usd_per_hour
FROM priced GROUP BY host_id, host_type ORDER BY host_id
""",
    "38-cost-by-region": ENGINE + """SELECT region, sum(usd) AS usd, sum(usd * device_us / 60000000) AS requests_usd, sum(usd * padding_us / 60000000) AS padding_usd,
  sum(usd * (60000000 - busy_us - padding_us) / 60000000) AS idle_usd
FROM priced WHERE usd IS NOT NULL GROUP BY region ORDER BY region
""",
    "39-cost-per-million-tokens": ENGINE + """SELECT region, model, sum(usd) / sum(output_tokens) * 1000000 AS usd_per_million
FROM priced WHERE usd IS NOT NULL GROUP BY region, model ORDER BY region, model
""",
    "40-usage-cost-per-million-tokens": ENGINE + """SELECT region, model, sum(usd * busy_us / 60000000) / sum(output_tokens) * 1000000 AS usd_per_million
FROM priced WHERE usd IS NOT NULL GROUP BY region, model ORDER BY region, model
""",
    "41-cost-by-tenant": ENGINE + """SELECT t.tenant, sum(p.usd * t.device_us / 60000000) AS usd
FROM tokens t JOIN priced p ON p.host_id = t.host_id AND p.minute = (epoch_us(t.time) - 1) // 60000000
WHERE p.usd IS NOT NULL GROUP BY t.tenant ORDER BY t.tenant NULLS LAST
""",
    "42-everything-is-paid-by-somebody": ENGINE + """SELECT sum(usd) AS parts_usd, sum(usd) AS hosts_usd FROM priced
""",
    "43-dearest-calls": ENGINE + """SELECT t.trace_id, any_value(t.tenant) AS tenant, sum(p.usd * t.device_us / 60000000) AS cost_usd, sum(t.device_us) AS device_us
FROM tokens t JOIN priced p ON p.host_id = t.host_id AND p.minute = (epoch_us(t.time) - 1) // 60000000
WHERE p.usd IS NOT NULL GROUP BY t.trace_id ORDER BY cost_usd DESC, trace_id LIMIT 5
""",
    "44-hosts-without-a-price": ENGINE + """SELECT host_id, host_type, count(*) AS minutes, count(usd) AS with_cost FROM priced WHERE usd IS NULL GROUP BY ALL ORDER BY host_id
""",
    "45-spend-rate-by-type": ENGINE + """SELECT host_type, region, count(DISTINCT host_id) AS hosts, sum(usd) * 6 AS usd_per_hour
FROM priced WHERE usd IS NOT NULL GROUP BY host_type, region ORDER BY host_type, region
""",
    "46-padding-share-of-cost": ENGINE + """SELECT host_id, sum(padding_us) / (count(*) * 60000000) AS share FROM priced WHERE usd IS NOT NULL GROUP BY host_id ORDER BY host_id
""",
    "47-energy-by-host": ENERGY + """SELECT host_id, 'node' AS boundary, 'energy_counter' AS method, sum(joules) AS joules FROM used GROUP BY host_id ORDER BY host_id
""",
    "48-tokens-per-joule": ENERGY + """, made AS (SELECT host_id, (epoch_us(time) - 1) // 60000000 AS minute, sum("count") AS tokens FROM tokens GROUP BY ALL)
SELECT u.region, sum(coalesce(m.tokens, 0)) / sum(u.joules) AS tokens_per_joule
FROM used u LEFT JOIN made m ON m.host_id = u.host_id AND m.minute = u.minute GROUP BY u.region ORDER BY u.region
""",
    "49-energy-per-token": ENERGY + """, made AS (SELECT host_id, (epoch_us(time) - 1) // 60000000 AS minute, sum("count") AS tokens FROM tokens GROUP BY ALL),
served AS (SELECT host_id, any_value(model) AS model FROM tokens GROUP BY host_id)
SELECT s.model, sum(u.joules) / sum(coalesce(m.tokens, 0)) AS joules_per_token
FROM used u JOIN served s ON s.host_id = u.host_id LEFT JOIN made m ON m.host_id = u.host_id AND m.minute = u.minute
GROUP BY s.model ORDER BY s.model
""",
}
