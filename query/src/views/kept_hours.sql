SELECT arrow_cast(hour * 3600000000, 'Timestamp(Microsecond, Some("UTC"))') AS time, CAST(NULL AS VARCHAR) AS region, CAST(NULL AS VARCHAR) AS model,
  -- a minute is over a minute after its end, as windows are built
  arrow_cast(least(hour * 3600000000 + 3600000000, (now_us - 60000000) / 60000000 * 60000000), 'Timestamp(Microsecond, Some("UTC"))') AS until
FROM (
  -- of the days that rows are kept an hour is left for the sweep that drops them
  SELECT now_us, unnest(range((now_us - CAST(7 AS BIGINT) * 86400000000 + 7199999999) / 3600000000,
    ((now_us - 60000000) / 60000000 * 60000000 + 3599999999) / 3600000000)) AS hour
  FROM (SELECT CAST(arrow_cast(now(), 'Timestamp(Microsecond, Some("UTC"))') AS BIGINT) AS now_us)
)
