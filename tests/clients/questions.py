"""Questions that people ask of a fleet, answered by Tokenwatt's SQL and, apart from it, by DuckDB over the same Parquet files.

A fleet's telemetry goes in by OTLP. Each `tests/questions/NN-name.sql` is a question with front matter (`question`, `asked by`, and
`tolerance` for columns that are not exact); `questions_oracle.py` computes its answer from the raw tables. `deltalake` pins the version
of each table and lists its files, and DuckDB reads those.

usage: questions.py LAKE OTLP_URL SQL_URL QUESTIONS
"""
import datetime
import decimal
import math
import pathlib
import sys
import time

import duckdb
from deltalake import DeltaTable

import lake_sql
import questions_oracle
from questions_fleet import MINUTES, SECOND, Fleet

LAKE, OTLP, SQL, FOLDER = sys.argv[1:5]
TABLES = ["requests", "tokens", "devices", "nodes", "prices", "histograms"]
EXACT = 1e-9


def question(path):
    """Front matter and statement."""
    head, statement = {}, []
    for line in path.read_text().splitlines():
        if line.startswith("-- ") and not statement:
            key, value = line[3:].split(":", 1)
            head[key.strip()] = value.strip()
        else:
            statement.append(line)
    assert head.get("question", "").endswith("?") and head.get("asked by") in ("sre", "analyst", "finops"), path
    known = {"question", "asked by", "tolerance"}
    assert set(head) <= known, f"{path}: {set(head) - known}"
    tolerances = {}
    for part in filter(None, head.get("tolerance", "").split(",")):
        column, share = part.split()
        tolerances[column] = float(share.removesuffix("%")) / 100
    return "\n".join(statement), tolerances


def plain(value):
    """A value as either side gives it, in a form that compares."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, str):
        try:
            return float(decimal.Decimal(value))
        except decimal.InvalidOperation:
            return value
    return float(value)


def is_close(ours, theirs, tolerance):
    if isinstance(ours, float) and isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=tolerance, abs_tol=1e-12)
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(is_close(ours[key], theirs[key], tolerance) for key in ours)
    return ours == theirs


def compare(name, statement, tolerances, db, window):
    ours = lake_sql.rows(SQL, statement, **window)
    oracle = questions_oracle.ANSWERS[name]
    answer = db.execute(oracle, {key: value for key, value in window.items() if f"${key}" in oracle})
    columns = [column[0] for column in answer.description]
    theirs = [dict(zip(columns, row)) for row in answer.fetchall()]
    assert ours, f"{name}: no rows"
    assert len(ours) == len(theirs), f"{name}: {len(ours)} rows, DuckDB has {len(theirs)}\n{ours[:5]}\n{theirs[:5]}"
    assert set(tolerances) <= set(columns), f"{name}: no column for {tolerances}"
    for ours, theirs in zip(ours, theirs):
        assert list(ours) == columns, f"{name}: columns {list(ours)}, DuckDB has {columns}"
        assert any(value is not None for value in ours.values()), f"{name}: nothing but NULL"
        for column in columns:
            mine, other = plain(ours[column]), plain(theirs[column])
            assert is_close(mine, other, tolerances.get(column, EXACT)), f"{name}.{column}: {mine}, DuckDB {other}\n{ours}\n{theirs}"


def pinned():
    """DuckDB over the files of one version of each table, and the versions."""
    db, versions = duckdb.connect(), {}
    db.execute("SET TimeZone = 'UTC'")
    for table in TABLES:
        delta = DeltaTable(f"{LAKE}/{table}")
        files = [file.removeprefix("file://") for file in delta.file_uris()]
        db.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet({files!r}, union_by_name = true)")
        versions[table] = delta.version()
    return db, versions


def main():
    start = (time.time_ns() // (60 * SECOND) - MINUTES - 3) * 60 * SECOND
    fleet = Fleet(start)
    fleet.send(OTLP)
    expected = sum(len(call["places"]) for call in fleet.calls)
    lake_sql.until(SQL, "SELECT trace_id FROM requests", expected)
    lake_sql.until(SQL, "SELECT 1 FROM tokens", sum(len(call["tokens"]) for call in fleet.calls))
    lake_sql.until(SQL, "SELECT 1 FROM histograms WHERE service = 'vllm'", 20)
    lake_sql.until(SQL, "SELECT 1 FROM devices WHERE energy_j IS NOT NULL", 5 * 64)
    lake_sql.until(SQL, "SELECT 1 FROM devices WHERE busy_us IS NOT NULL AND padding_us IS NOT NULL", 5 * 64)
    stamp = lambda ns: datetime.datetime.fromtimestamp(ns // SECOND, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    window = {"since": stamp(start), "until": stamp(start + MINUTES * 60 * SECOND)}
    db, versions = pinned()
    files = sorted(pathlib.Path(FOLDER).glob("*.sql"))
    assert {file.stem for file in files} == set(questions_oracle.ANSWERS), "a question without an answer, or the other way round"
    faults = []
    for file in files:
        try:
            compare(file.stem, *question(file), db, window)
        except (AssertionError, SystemExit, duckdb.Error) as fault:
            faults.append(f"{file.stem}: {fault}")
    _, after = pinned()
    assert versions == after, f"the tables went on: {versions} {after}"
    if faults:
        raise SystemExit("\n\n".join(faults) + f"\n\n{len(faults)} of {len(files)} questions differ")
    print(f"{len(files)} questions agree at {versions}")


main()
