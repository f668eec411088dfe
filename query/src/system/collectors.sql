WITH samples AS (
  SELECT *, row_number() OVER newest AS age,
    lead(time) OVER newest AS time_before, lead(accepted_spans) OVER newest AS spans_before, lead(cpu_s) OVER newest AS cpu_before
  FROM collectors
  -- counters of another process are another count
  WINDOW newest AS (PARTITION BY collector, started_at ORDER BY time DESC)
),
processes AS (
  SELECT *, CAST(CAST(time AS BIGINT) - CAST(time_before AS BIGINT) AS DOUBLE) / 1e6 AS between_s,
    row_number() OVER (PARTITION BY collector ORDER BY started_at DESC) AS process
  FROM samples
  WHERE age = 1
)
SELECT time, collector, version, started_at,
  date_part('epoch', now()) - date_part('epoch', time) AS sample_age_s,
  CASE WHEN between_s > 0 THEN (accepted_spans - spans_before) / between_s END AS spans_per_s,
  CASE WHEN between_s > 0 THEN (cpu_s - cpu_before) / between_s END AS cpus,
  accepted_spans, accepted_points, accepted_logs, committed_rows,
  journal_bytes, oldest_unflushed_s, disk_free_bytes, rss_bytes, flush_retries
FROM processes
WHERE process = 1
