"""Statements that are out for something else than an answer, over every protocol, while somebody else asks on.

All of it is refused or bounded, nothing of another tenant is told, nothing leaves the server, and the other's session does not notice.

usage: attack.py POSTGRESQL_HOST HTTP_URL FLIGHT_URL ATTACKER_TOKEN VICTIM_TOKEN DIRECTORY
"""
import json
import os
import socket
import sys
import threading
import time
import urllib.error
import urllib.request

import adbc_driver_flightsql
import adbc_driver_flightsql.dbapi as dbapi
import psycopg

HOST, HTTP, FLIGHT, ATTACKER, VICTIM, DIRECTORY = sys.argv[1:7]
FLIGHT = FLIGHT.replace("http://", "grpc://")
STATEMENT = adbc_driver_flightsql.StatementOptions
# Seconds that a statement of the attacker may take.
PATIENCE_S = 2
SECRET = "a line that no answer may quote"
OTHERS = ("globex", "initech")
LONG = "SELECT count(*) FROM generate_series(1, 100000) AS a(x), generate_series(1, 100000) AS b(y) WHERE a.x + b.y = 1"


def forbidden(file, out, port):
    """Files, networks, settings, writing."""
    sources = [f"'{file}'", f'"{file}"', f"read_csv('{file}')", f"read_parquet('{file}')", f"pg_read_file('{file}')",
               f"'http://127.0.0.1:{port}/x.parquet'", f'"http://127.0.0.1:{port}/x.csv"', f"read_json('http://127.0.0.1:{port}/')",
               f"'s3://127.0.0.1:{port}/x'", f'"file://{file}"', '"../requests"', "lake.tables.requests", "glob('/**')"]
    stored = [f"CREATE EXTERNAL TABLE t STORED AS {kind} LOCATION '{place}'" for kind in ("CSV", "PARQUET")
              for place in (file, f"http://127.0.0.1:{port}/x", "s3://bucket/x")]
    return [f"SELECT * FROM {source}" for source in sources] + stored + [
        f"SELECT pg_read_file('{file}')",
        f"COPY requests TO '{out}'",
        f"COPY (SELECT 1) TO '{out}'",
        f"COPY requests TO PROGRAM 'touch {out}'",
        f"COPY requests FROM '{file}'",
        f"EXPLAIN COPY (SELECT 1) TO '{out}'",
        "CREATE TABLE t AS SELECT 1",
        "CREATE VIEW requests AS SELECT 1",
        "CREATE FUNCTION f() RETURNS INT RETURN 1",
        "CREATE EXTENSION x",
        "SELECT 1 INTO t",
        "WITH x AS (INSERT INTO requests (region) VALUES ('x') RETURNING region) SELECT * FROM x",
        "DELETE FROM requests",
        "TRUNCATE TABLE requests",
        "ALTER TABLE requests ADD COLUMN x INT",
        "DROP VIEW calls",
        "SET ROLE admin",
        "SET SESSION AUTHORIZATION victim",
        "SET datafusion.runtime.memory_limit = '100G'",
        "SET datafusion.execution.target_partitions = 1000000",
        "SET datafusion.catalog.location = '/etc'",
        "GRANT ALL ON requests TO attacker",
        "LOAD httpfs",
        "SELECT 1; DROP TABLE requests",
    ]


def bombs():
    """Short statements that mean much: in the parser, in the planner, in a pattern, in a recursion, in memory."""
    def chain(step, last):
        steps = ", ".join(f"a{at} AS ({step.format(at - 1)})" for at in range(1, 41))
        return f"WITH a0 AS (SELECT value AS x FROM generate_series(1, 2)), {steps} {last}"

    cube = ", ".join(f"value + {at}" for at in range(24))
    return [
        chain("SELECT * FROM a{0} UNION ALL SELECT * FROM a{0}", "SELECT count(*) FROM a40"),
        chain("SELECT l.x FROM a{0} AS l JOIN a{0} AS r ON l.x = r.x", "SELECT count(*) FROM a40"),
        chain("SELECT x FROM a{0} WHERE x IN (SELECT x FROM a{0})", "SELECT count(*) FROM a40"),
        f"SELECT {'(' * 10000}1{')' * 10000}",
        f"SELECT {'NOT ' * 10000}true",
        f"SELECT 1 {'UNION SELECT 1 ' * 10000}",
        f"SELECT count(*) FROM generate_series(1, 9) AS t(value) GROUP BY CUBE({cube})",
        "WITH RECURSIVE n AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n",
        "WITH RECURSIVE n AS (SELECT 1 AS x UNION ALL SELECT l.x FROM n AS l, n AS r) SELECT count(*) FROM n",
        "SELECT count(*) FROM generate_series(1, 1000000) AS a CROSS JOIN generate_series(1, 1000000) AS b",
        "SELECT array_agg(value) FROM generate_series(1, 1000000000)",
        "SELECT regexp_like(repeat('a', 100000), '((((a{1,100}){1,100}){1,100}){1,100})')",
        "SELECT count(*) FROM generate_series(1, 10000000) AS t(value) WHERE repeat('a', 10000 + value * 0) ~ '(a?){20}(b?){20}a{20}c'",
        "SELECT sum(length(repeat(repeat('x', 1000), 1000))) FROM generate_series(1, 100000000)",
        "SELECT repeat('x', 1000000) FROM generate_series(1, 10000)",
    ]


# What a reader of one tenant might get at another's rows with. `{0}` is a table.
PEEKS = [
    "SELECT DISTINCT tenant FROM {0}",
    "SELECT tenant FROM {0} UNION ALL SELECT tenant FROM tokens",
    "SELECT (SELECT max(tenant) FROM {0}), (SELECT min(tenant) FROM {0})",
    "WITH t AS (SELECT * FROM {0}) SELECT DISTINCT tenant FROM t",
    "SELECT DISTINCT tenant FROM {0} WHERE tenant = 'acme' OR true",
    "SELECT DISTINCT b.tenant FROM {0} AS a RIGHT JOIN tokens AS b ON false",
    "SELECT CAST(tenant AS INT) FROM {0}",
    "SELECT 1 / (length(tenant) - length(tenant)) FROM {0}",
    "SELECT string_agg(tenant, ',') OVER () FROM {0} LIMIT 1",
    "EXPLAIN SELECT * FROM {0}",
    "EXPLAIN VERBOSE SELECT * FROM {0}",
    "EXPLAIN ANALYZE SELECT * FROM {0}",
]
PEEKS = [peek.format(table) for peek in PEEKS for table in ("requests", "calls")] + [
    "SELECT DISTINCT tenant FROM cost_per_tenant",
    "SELECT DISTINCT tenant FROM requests VERSION AS OF 1",
    "SELECT sql, reader FROM system.queries",
    "SELECT sql, reader, message FROM system.audit",
    "SELECT * FROM system.freshness",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM pg_catalog.pg_class",
    "SELECT * FROM devices",
]


class Refused(Exception):
    """What the server said."""


def over_http(sql):
    body = json.dumps({"sql": sql, "timeout_ms": PATIENCE_S * 1000}).encode()
    request = urllib.request.Request(
        f"{HTTP}/api/v1/sql", body, {"content-type": "application/json", "authorization": f"Bearer {ATTACKER}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["rows"]
    except urllib.error.HTTPError as error:
        said = json.load(error)["error"]
        assert said["kind"] != "internal", (sql[:200], said)
        raise Refused(f"{said['kind']}: {said['message']}") from None


class Postgres:
    """One connection; it must live on after every statement. Simple queries, or prepared ones."""

    def __init__(self, prepare):
        self.prepare = prepare
        self.connection = psycopg.connect(f"postgresql://attacker:{ATTACKER}@{HOST}", autocommit=True)
        self.connection.execute(f"SET statement_timeout = '{PATIENCE_S}s'")

    def __call__(self, sql):
        try:
            if self.prepare:
                return self.connection.execute(sql, prepare=True).fetchall()
            return psycopg.ClientCursor(self.connection).execute(sql).fetchall()
        except psycopg.Error as error:
            assert error.sqlstate not in (None, "XX000"), (sql[:200], error)
            assert self.connection.execute("SELECT 1").fetchone() == (1,)
            raise Refused(f"{error.sqlstate}: {error}") from None


class Flight:
    """One connection, too."""

    def __init__(self):
        options = {adbc_driver_flightsql.DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {ATTACKER}"}
        self.connection = dbapi.connect(FLIGHT, options, autocommit=True)

    def __call__(self, sql):
        with self.connection.cursor() as cursor:
            times = {STATEMENT.TIMEOUT_FETCH.value: float(PATIENCE_S), STATEMENT.TIMEOUT_QUERY.value: float(PATIENCE_S)}
            cursor.adbc_statement.set_options(**times)
            try:
                cursor.execute(sql)
                return cursor.fetchall()
            except dbapi.Error as error:
                # The driver's own words differ; the status of gRPC stands at the end.
                assert "(Internal;" not in str(error), (sql[:200], error)
                raise Refused(str(error)) from None


class Victim(threading.Thread):
    """Somebody else's session with settings of its own: asks all the time, and is answered rightly every time."""

    def __init__(self):
        super().__init__()
        self.ended, self.answers, self.fault = threading.Event(), 0, None

    def run(self):
        try:
            with psycopg.connect(f"postgresql://victim:{VICTIM}@{HOST}", autocommit=True) as connection:
                connection.execute("SET TIME ZONE 'Asia/Tokyo'")
                asked = "SELECT count(*), min(tenant), max(tenant) FROM requests"
                first = connection.execute(asked).fetchone()
                assert first[0] > 0 and first[1:] == ("globex", "globex"), first
                while not self.ended.is_set():
                    assert connection.execute(asked, prepare=True).fetchone() == first
                    assert connection.execute("SHOW TimeZone").fetchone() == ("Asia/Tokyo",)
                    assert connection.execute("SHOW statement_timeout").fetchone() != (f"{PATIENCE_S}s",)
                    self.answers += 1
        except Exception as error:
            self.fault = repr(error)


def quiet(text):
    """Nothing of others, and nothing of files."""
    assert SECRET not in text and "root:" not in text, text[:500]
    for other in OTHERS:
        assert other not in text, text[:2000]


def attacked(fronts, file, out, sink):
    refusals = 0
    for name, ask in fronts.items():
        for sql in forbidden(file, out, sink.getsockname()[1]):
            try:
                rows = ask(sql)
            except Refused as refused:
                assert str(refused), sql
                quiet(str(refused))
                refusals += 1
                continue
            raise AssertionError(f"{name}: {sql} answers {rows[:3]}")
    assert not os.path.exists(out), "a file was written"
    try:
        sink.accept()
        raise AssertionError("the server called somebody")
    except BlockingIOError:
        return refusals


def peeked(fronts):
    for name, ask in fronts.items():
        seen = set()
        for sql in PEEKS:
            try:
                rows = ask(sql)
            except Refused as refused:
                quiet(str(refused))
                continue
            quiet(json.dumps(rows, default=str))
            seen.update(str(row) for row in rows if "acme" in str(row))
        assert seen, f"{name}: not even its own rows"


def bombed(fronts):
    """Each bomb over all protocols at once. One that is bounded by itself has a small answer."""
    faults = []

    def burst(name, ask, sql):
        try:
            rows = ask(sql)
            assert len(rows) <= 2, f"{len(rows)} rows"
        except Refused as refused:
            if not str(refused):
                faults.append(f"{name}: {sql[:200]}: refused without a word")
        except Exception as error:
            faults.append(f"{name}: {sql[:200]}: {error!r}")

    for sql in bombs():
        threads = [threading.Thread(target=burst, args=(name, ask, sql)) for name, ask in fronts.items()]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert not faults, "\n".join(faults)


def uncancelled(ask):
    """A query of somebody else is neither seen nor stopped: it ends by its own time."""
    ended = []

    def run():
        with psycopg.connect(f"postgresql://victim:{VICTIM}@{HOST}", autocommit=True) as connection:
            connection.execute("SET statement_timeout = '6s'")
            try:
                connection.execute(LONG)
            except psycopg.Error as error:
                ended.append(str(error))

    thread = threading.Thread(target=run)
    with psycopg.connect(f"postgresql://victim:{VICTIM}@{HOST}", autocommit=True) as own:
        thread.start()
        running = "SELECT id FROM system.queries WHERE sql LIKE '%b(y) WHERE a.x + b.y%' AND sql NOT LIKE '%system%'"
        deadline = time.monotonic() + 60
        while not (found := own.execute(running).fetchall()) and time.monotonic() < deadline:
            time.sleep(0.05)
    (number,) = found[0]
    assert ask("SELECT sql FROM system.queries WHERE sql LIKE '%b(y) WHERE a.x + b.y%' AND sql NOT LIKE '%system%'") == []
    try:
        rows = ask(f"SELECT tokenwatt_cancel({number})")
        assert not any(True in row for row in rows), rows
    except Refused as refused:
        quiet(str(refused))
    request = urllib.request.Request(f"{HTTP}/api/v1/queries/{number}", method="DELETE", headers={"authorization": f"Bearer {ATTACKER}"})
    try:
        urllib.request.urlopen(request, timeout=60)
        raise AssertionError("somebody else's query was stopped")
    except urllib.error.HTTPError as error:
        assert error.code == 404, error
    thread.join()
    assert len(ended) == 1 and "6 s" in ended[0], ended


def main():
    file, out = os.path.join(DIRECTORY, "secret.csv"), os.path.join(DIRECTORY, "out.csv")
    with open(file, "w") as secret:
        secret.write(f"column\n{SECRET}\n")
    sink = socket.create_server(("127.0.0.1", 0))
    sink.setblocking(False)
    fronts = {"http": over_http, "simple": Postgres(False), "prepared": Postgres(True), "flight": Flight()}
    victim = Victim()
    victim.start()
    refusals = attacked(fronts, file, out, sink)
    peeked(fronts)
    bombed(fronts)
    uncancelled(over_http)
    victim.ended.set()
    victim.join()
    assert victim.fault is None, victim.fault
    assert victim.answers > 10, victim.answers
    print(f"{refusals} refused, undisturbed")


main()
