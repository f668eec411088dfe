SELECT d.*, allocation_first('$keys', CASE WHEN d.part = 'requests' THEN c.allocation END, allocation_first('$keys', r.allocation, h.allocation)) AS allocation
  FROM drawn AS d
  LEFT JOIN (
    -- what a call says of itself, as its server tells it
    SELECT trace_id, span_id, max(allocation) AS allocation
    FROM (
      SELECT trace_id, span_id, allocation_of(attributes, '$keys') AS allocation
      FROM requests
      WHERE measured_at = 'server' AND trace_id IS NOT NULL AND span_id IS NOT NULL
    ) AS told
    WHERE allocation IS NOT NULL
    GROUP BY trace_id, span_id
  ) AS c ON c.trace_id = d.trace_id AND c.span_id = d.request_span_id
  LEFT JOIN (
    -- what the samples of a replica say all alike in an hour, key by key
    SELECT hour, host_id, instance, allocation_agreed('$keys', array_agg(allocation), NULL) AS allocation
    FROM (
      SELECT DISTINCT CAST(time AS BIGINT) / 3600000000 AS hour, host_id, instance, allocation_of(attributes, '$keys') AS allocation
      FROM devices
      WHERE kind = 'engine' AND host_id IS NOT NULL AND instance IS NOT NULL
    ) AS told
    GROUP BY hour, host_id, instance
  ) AS r ON r.hour = CAST(d.time AS BIGINT) / 3600000000 AND r.host_id = d.host_id AND r.instance = d.instance
  LEFT JOIN (
    -- what its other samples say of a host, else all of its replicas, key by key
    SELECT hour, host_id, allocation_agreed('$keys', array_agg(own), array_agg(replicas)) AS allocation
    FROM (
      SELECT DISTINCT CAST(time AS BIGINT) / 3600000000 AS hour, host_id,
        CASE WHEN kind <> 'engine' THEN allocation_of(attributes, '$keys') END AS own,
        CASE WHEN kind = 'engine' THEN coalesce(allocation_of(attributes, '$keys'), '') END AS replicas
      FROM devices
      WHERE host_id IS NOT NULL
    ) AS told
    GROUP BY hour, host_id
  ) AS h ON h.hour = CAST(d.time AS BIGINT) / 3600000000 AND h.host_id = d.host_id
