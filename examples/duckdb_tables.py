"""Calls and tokens of each region, computed by DuckDB from the files of one version of the table, while it is written.

    pip install deltalake duckdb
    TOKENWATT_DATA=tokenwatt-data python examples/duckdb_tables.py
"""
import os

import deltalake
import duckdb

DATA = os.environ.get("TOKENWATT_DATA", "tokenwatt-data")

# The version is pinned here: rows that come later are in files of later versions.
table = deltalake.DeltaTable(f"{DATA}/requests")
files = [file.removeprefix("file://") for file in table.file_uris()]
print(f"requests, version {table.version()}, {len(files)} files")

# Client, gateway and server may each have reported a call. Where a trace holds one call, the row nearest the engine stands for it; our
# view `calls` has the rule for the others.
print(duckdb.sql(f"""
    WITH placed AS (
      SELECT *, row_number() OVER (
        PARTITION BY trace_id ORDER BY CASE measured_at WHEN 'server' THEN 0 WHEN 'gateway' THEN 1 ELSE 2 END
      ) AS place
      FROM read_parquet({files}, union_by_name = true)
    )
    SELECT region, count(*) AS calls, sum(output_tokens) AS output_tokens,
      round(quantile_cont(ttft_s, 0.99) FILTER (measured_at = 'server'), 3) AS ttft_p99_s
    FROM placed
    WHERE place = 1 OR trace_id IS NULL
    GROUP BY region
    ORDER BY calls DESC
"""))
