"""Runs statements in DuckDB or chDB on Parquet files. Job as JSON on standard input, answer as JSON on standard output."""

import datetime
import decimal
import json
import os
import sys
import time


def plain(value):
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            value = value.replace(tzinfo=datetime.timezone.utc)
        # whole numbers: a float of seconds cannot hold a microsecond
        since = value - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
        return {"us": since // datetime.timedelta(microseconds=1)}
    if isinstance(value, decimal.Decimal):
        return float(value)
    return value


def files(paths):
    return "[" + ", ".join("'" + path.replace("'", "''") + "'" for path in paths) + "]"


class Duck:
    def __init__(self, job):
        import duckdb

        self.version = duckdb.__version__
        self.connection = duckdb.connect()
        for setting in (f"threads = {job['threads']}", "TimeZone = 'UTC'", "parquet_metadata_cache = true"):
            self.connection.execute(f"SET {setting}")
        for name, paths in job["tables"].items():
            self.connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet({files(paths)})")

    def rows(self, sql):
        return [[plain(cell) for cell in row] for row in self.connection.execute(sql).fetchall()]


class Chdb:
    def __init__(self, job):
        import chdb
        from chdb import session

        self.version = chdb.__version__
        self.session = session.Session()
        self.threads = job["threads"]
        self.session.query("CREATE DATABASE bench ENGINE = Atomic")
        self.session.query("USE bench")
        for name, glob in job["globs"].items():
            self.session.query(f"CREATE VIEW {name} AS SELECT * FROM file('{glob}', Parquet)")

    def rows(self, sql):
        settings = f"max_threads = {self.threads}, date_time_output_format = 'iso'"
        answer = self.session.query(f"{sql}\nSETTINGS {settings}", "JSONCompactEachRow")
        return [json.loads(line) for line in str(answer).splitlines() if line]


def main():
    # engines draw bars of progress on standard output
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    job = json.load(sys.stdin)
    engine = {"duckdb": Duck, "chdb": Chdb}[job["engine"]](job)
    answers = {}
    for statement in job["statements"]:
        try:
            rows = engine.rows(statement["sql"])
            runs = []
            for _ in range(job["runs"]):
                begun = time.perf_counter()
                rows = engine.rows(statement["sql"])
                runs.append((time.perf_counter() - begun) * 1e3)
            answers[statement["name"]] = {"ms": runs, "rows": rows}
        except Exception as error:
            answers[statement["name"]] = {"error": str(error)}
    json.dump({"version": engine.version, "answers": answers}, answer)
    answer.close()


main()
