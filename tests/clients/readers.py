"""Other engines read the tables while they are written, and count what our SQL counts at the same version.

`deltalake` pins the version and lists its files; DuckDB reads those files, Polars the table at that version.

usage: readers.py LAKE SQL_URL ROUNDS        (LAKE: a directory or s3://bucket/prefix; AWS_* name the endpoint)
"""
import os
import sys
import time

import duckdb
import polars
from deltalake import DeltaTable

import lake_sql

LAKE, SQL, ROUNDS = sys.argv[1], sys.argv[2], int(sys.argv[3])
TABLES = {
    "requests": "coalesce(sum(output_tokens), 0)",
    "tokens": "coalesce(sum(count), 0)",
    "spans": "coalesce(sum(end_unix_nano - time_unix_nano), 0)",
}


def options():
    if not LAKE.startswith("s3://"):
        return {}
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ENDPOINT_URL")
    return {**{name: os.environ[name] for name in names}, "AWS_ALLOW_HTTP": "true"}


def compare(table, measure):
    path = f"{LAKE}/{table}"
    delta = DeltaTable(path, storage_options=options())
    version = delta.version()
    statement = f"SELECT count(*) AS rows, {measure} AS measure FROM {{}}"
    ours = lake_sql.rows(SQL, statement.format(f"{table} VERSION AS OF {version}"))[0]
    ours = (int(ours["rows"]), int(ours["measure"]))

    lazy = polars.scan_delta(path, version=version, storage_options=options())
    theirs = polars.SQLContext({table: lazy}, eager=True).execute(statement.format(table)).row(0)
    assert (int(theirs[0]), int(theirs[1])) == ours, f"{table} at {version}: Polars {theirs}, SQL {ours}"

    if not LAKE.startswith("s3://"):
        files = delta.file_uris()
        source = f"read_parquet({[file.removeprefix('file://') for file in files]!r})"
        theirs = duckdb.sql(statement.format(source)).fetchall()[0]
        assert (int(theirs[0]), int(theirs[1])) == ours, f"{table} at {version}: DuckDB {theirs}, SQL {ours}"
    return version, ours[0]


def main():
    seen = {table: set() for table in TABLES}
    deadline = time.monotonic() + 120
    # As many rounds as wanted, each on a version that was not read before: the tables are being written.
    while any(len(versions) < ROUNDS for versions in seen.values()):
        assert time.monotonic() < deadline, f"versions read: {seen}"
        for table, measure in TABLES.items():
            version, rows = compare(table, measure)
            if rows:
                seen[table].add(version)
        time.sleep(0.3)
    print({table: sorted(versions) for table, versions in seen.items()})


main()
