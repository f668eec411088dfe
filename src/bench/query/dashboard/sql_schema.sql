SELECT "table", count(*) AS files, sum(rows) AS rows, sum(bytes) AS bytes, max(newest_time) AS newest_time
FROM system.files
GROUP BY "table"
ORDER BY "table"
