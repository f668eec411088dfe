WITH totals AS (
  SELECT time, collector, started_at, 'rejected' AS reason, 'item' AS unit, true AS lost, rejected_items AS total FROM collectors
  UNION ALL
  SELECT time, collector, started_at, 'malformed', 'request', true, invalid_requests FROM collectors
  UNION ALL
  SELECT time, collector, started_at, 'unreadable', 'frame', true, dropped_frames FROM collectors
  UNION ALL
  -- throttled requests are refused ones too
  SELECT time, collector, started_at, 'refused', 'request', false, refused_requests - coalesce(throttled_requests, 0) FROM collectors
  UNION ALL
  SELECT time, collector, started_at, 'throttled', 'request', false, throttled_requests FROM collectors
  UNION ALL
  SELECT time, collector, started_at, 'quarantined', 'row', false, quarantined_rows FROM collectors
  UNION ALL
  SELECT time, collector, started_at, 'runaway', 'value', false, runaway_values FROM collectors
),
steps AS (
  SELECT time, collector, started_at, reason, unit, lost, total,
    lag(total) OVER (PARTITION BY collector, started_at, reason ORDER BY time) AS before
  FROM totals
  WHERE total IS NOT NULL
),
counts AS (
  -- a process counts from zero; where its first samples are no longer kept, nobody knows when the first count came about
  SELECT time, collector, reason, unit, lost,
    CASE WHEN before IS NOT NULL THEN total - before
      WHEN CAST(time AS BIGINT) - CAST(started_at AS BIGINT) <= 3600000000 THEN total END AS count
  FROM steps
)
SELECT date_trunc('minute', time) AS time, collector, reason, unit, lost, CAST(sum(count) AS BIGINT) AS count
FROM counts
WHERE count > 0
GROUP BY 1, 2, 3, 4, 5
