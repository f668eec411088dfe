"""Clients of PostgreSQL against our wire front.

usage: postgres.py PART URL [SQL_URL]        (URL: postgresql://…; SQL_URL: the HTTP API whose answers are the truth)
"""
import datetime
import decimal
import sys
import threading
import time

import psycopg

PART, URL = sys.argv[1], sys.argv[2]
UTC = datetime.timezone.utc
# It compares ten billion pairs, none of which matches.
LONG = (
    "SELECT count(*) FROM generate_series(1, 100000) AS a(x), generate_series(1, 100000) AS b(y) "
    "WHERE a.x + b.y = 1"
)


def connect(url=URL, **options):
    return psycopg.connect(url, autocommit=True, **options)


def one(connection, sql, parameters=None, **options):
    return connection.execute(sql, parameters, **options).fetchone()


def fails(connection, sql, state, parameters=None):
    """The statement is refused with that SQLSTATE, and the connection goes on."""
    try:
        connection.execute(sql, parameters)
    except psycopg.Error as error:
        assert error.sqlstate == state, f"{sql}: {error.sqlstate} {error}, not {state}"
        connection.rollback() if not connection.autocommit else None
        assert one(connection, "SELECT 1")[0] == 1
        return error
    raise AssertionError(f"{sql} is not refused")


def same(ours, json):
    """A value of psycopg and one of the HTTP answer's JSON."""
    if isinstance(ours, datetime.datetime):
        return ours == datetime.datetime.fromisoformat(json.replace("Z", "+00:00"))
    if isinstance(ours, (decimal.Decimal, datetime.date)):
        return str(ours) == str(json) or decimal.Decimal(str(ours)) == decimal.Decimal(str(json))
    return ours == json


def types():
    """Every type of every table comes in text and in binary as it comes over HTTP."""
    import lake_sql

    tables = ["requests", "tokens", "spans", "metrics", "logs", "prices", "calls", "ttft", "cost_per_region"]
    compared = 0
    with connect() as connection:
        for table in tables:
            columns = lake_sql.rows(sys.argv[3], f"SELECT * FROM {table} LIMIT 1")
            if not columns:
                continue
            order = ", ".join(f'"{name}"' for name, value in columns[0].items() if not isinstance(value, (dict, list)))
            sql = f"SELECT * FROM {table} ORDER BY {order} LIMIT 20"
            truth = lake_sql.rows(sys.argv[3], sql)
            for binary in (False, True):
                cursor = connection.cursor(binary=binary)
                cursor.execute(sql)
                names = [column.name for column in cursor.description]
                rows = cursor.fetchall()
                assert len(rows) == len(truth), f"{table}: {len(rows)} rows, not {len(truth)}"
                for row, expected in zip(rows, truth):
                    for name, value in zip(names, row):
                        assert same(value, expected[name]), f"{table}.{name}: {value!r} is not {expected[name]!r}"
                        compared += 1
        values = (
            "SELECT 1::smallint AS a, 2::int AS b, 3::bigint AS c, 1.5::real AS d, 0.1::double precision AS e, "
            "'x' AS f, true AS g, NULL AS h, DATE '2026-01-02' AS i, TIMESTAMP '2026-01-02 03:04:05.000006' AS j, "
            "CAST(-12345.678 AS DECIMAL(38,12)) AS k, INTERVAL '1 month 2 days 3 seconds' AS l, [1, NULL, 3] AS m, "
            "['a', 'b,c'] AS n, '\\x00ff' AS o, TIME '03:04:05' AS p"
        )
        expected = (
            1, 2, 3, 1.5, 0.1, "x", True, None, datetime.date(2026, 1, 2),
            datetime.datetime(2026, 1, 2, 3, 4, 5, 6), decimal.Decimal("-12345.678000000000"),
            datetime.timedelta(days=32, seconds=3), [1, None, 3], ["a", "b,c"], "\\x00ff", datetime.time(3, 4, 5),
        )
        for binary in (False, True):
            assert connection.cursor(binary=binary).execute(values).fetchone() == expected
    assert compared > 100, compared
    print("same")


def statements():
    """Parameters of all types, prepared or not; cursors; transactions that cost nothing."""
    when = datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    values = [
        7, -(2**40), 1.5, decimal.Decimal("0.037500000001"), "it's", True, None, when, datetime.date(2026, 1, 2),
        [1, 2, 3], b"\x00\xff", datetime.datetime(2026, 1, 2, 3, 4), float("inf"),
    ]
    with connect() as connection:
        for prepare in (False, True):
            for binary in (False, True):
                cursor = connection.cursor(binary=binary)
                for value in values:
                    got = cursor.execute("SELECT %s", [value], prepare=prepare).fetchone()[0]
                    assert got == value, f"{value!r} comes back as {got!r}"
                for name in ("%b", "%t"):
                    got = cursor.execute(f"SELECT {name} + 1", [41], prepare=prepare).fetchone()[0]
                    assert got == 42, got
        rows = connection.execute("SELECT count(*) FROM spans WHERE time > %s AND time < %s", [when, "2200-01-01"])
        assert rows.fetchone()[0] > 0
        rows = connection.execute("SELECT x FROM generate_series(1, 10) AS t(x) WHERE x = ANY(%s)", [[2, 4]])
        assert sorted(rows.fetchall()) == [(2,), (4,)]
        rows = connection.execute("SELECT x FROM generate_series(1, 10) AS t(x) ORDER BY x LIMIT %s", [3])
        assert len(rows.fetchall()) == 3
        fails(connection, "SELECT %s::int", "22P02", ["1; DROP TABLE t"])
        with connection.pipeline():
            cursors = [connection.execute("SELECT %s::int * 2", [n]) for n in range(10)]
            assert [cursor.fetchone()[0] for cursor in cursors] == [2 * n for n in range(10)]
        # A portal in pieces, the protocol's own way and by SQL.
        with connection.transaction():
            with connection.cursor(name="pieces") as cursor:
                cursor.itersize = 1000
                cursor.execute("SELECT x FROM generate_series(1, 10000) AS t(x)")
                assert sum(row[0] for row in cursor) == 50005000
            with connection.cursor(name="bound") as cursor:
                cursor.execute("SELECT x, %s FROM generate_series(1, 20) AS t(x) WHERE x > %s AND x <= %s", ["it's", 7, 10])
                assert cursor.fetchall() == [(8, "it's"), (9, "it's"), (10, "it's")]
        connection.autocommit = False
        connection.execute("SELECT 1")
        try:
            connection.execute("SELECT no_such_column FROM spans")
            raise AssertionError("no error")
        except psycopg.errors.UndefinedColumn as error:
            assert error.diag.message_hint, "there is a hint"
        try:
            connection.execute("SELECT 1")
            raise AssertionError("a failed transaction goes on")
        except psycopg.errors.InFailedSqlTransaction:
            connection.rollback()
        assert one(connection, "SELECT 1")[0] == 1
        connection.commit()
    with connect() as connection:
        rows = "COPY (SELECT x, NULL AS y, 'a\tb' AS z FROM generate_series(1, 2) AS t(x)) TO STDOUT"
        with connection.cursor().copy(rows) as copy:
            copied = b"".join(bytes(part) for part in copy)
        assert copied == b"1\t\\N\ta\\tb\n2\t\\N\ta\\tb\n", copied
        with connection.cursor().copy("COPY (SELECT 1 AS a, 'x,y' AS b) TO STDOUT (FORMAT csv, HEADER)") as copy:
            assert b"".join(bytes(part) for part in copy) == b'a,b\n1,"x,y"\n'
        with connection.cursor().copy("COPY (SELECT x FROM generate_series(1, 3) AS t(x)) TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["int8"])
            assert [row[0] for row in copy.rows()] == [1, 2, 3]
    print("answered")


def refusals():
    """Nothing writes, nothing reaches the engine's settings, and each fault has its SQLSTATE."""
    with connect() as connection:
        for sql in [
            "INSERT INTO spans VALUES (1)",
            "UPDATE spans SET name = 'x'",
            "DELETE FROM spans",
            "CREATE TABLE t (a INT)",
            "CREATE TABLE t AS SELECT 1",
            "CREATE VIEW v AS SELECT 1",
            "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '/tmp/x'",
            "DROP TABLE spans",
            "COPY spans TO '/tmp/spans.csv'",
            "COPY (SELECT 1) TO PROGRAM 'cat'",
            "COPY spans FROM STDIN",
            "EXPLAIN ANALYZE INSERT INTO spans VALUES (1)",
            "BEGIN READ WRITE",
            "SET transaction_read_only = off",
        ]:
            error = fails(connection, sql, "25006")
            assert error.diag.message_hint, sql
        for sql, state in [
            ("SELEKT 1", "42601"),
            ("SELECT 1; SELECT 2", "42601"),
            ("SELECT * FROM nowhere", "42P01"),
            ("SELECT nothing FROM spans", "42703"),
            ("SELECT no_such_function(1)", "42883"),
            ("SELECT 1 / 0", "22012"),
            ("SELECT 'x'::int", "22P02"),
            ("EXECUTE nothing", "25006"),
            ("FETCH 1 FROM nothing", "34000"),
        ]:
            fails(connection, sql, state)
        for sql in [
            "SET datafusion.runtime.memory_limit = '100G'",
            "SET datafusion.execution.batch_size TO 1",
            "SET ROLE postgres",
            "SET work_mem = '1TB'",
            "RESET work_mem; SET LOCAL datafusion.catalog.information_schema = false",
            "SELECT set_config('datafusion.execution.batch_size', '1', false)",
        ]:
            error = None
            try:
                connection.execute(sql)
            except psycopg.Error as refused:
                error = refused
            assert error is not None, f"{sql} is not refused"
        assert one(connection, "SELECT count(*) FROM information_schema.tables WHERE table_name = 'calls'")[0] == 1
        assert one(connection, "SHOW server_version") == ("16.6",)
        assert one(connection, "SHOW transaction isolation level") == ("repeatable read",)
    print("refused")


def cancel():
    """A query stops when it is told to, when its time is up, and when its client goes."""
    with connect() as connection, connect() as other:
        running = "SELECT count(*) FROM system.queries WHERE sql LIKE '%generate_series(1, 100000)%' AND state = 'running'"

        def until(count):
            deadline = time.monotonic() + 60
            while one(other, running)[0] != count + 1:
                assert time.monotonic() < deadline, f"not {count} queries run"
                time.sleep(0.05)

        thread = threading.Thread(target=lambda: (until(1), connection.cancel_safe()))
        thread.start()
        try:
            connection.execute(LONG)
            raise AssertionError("it was not cancelled")
        except psycopg.errors.QueryCanceled as error:
            assert "user's request" in str(error), error
        thread.join()
        until(0)
        assert one(connection, "SELECT 1") == (1,)
        connection.execute("SET statement_timeout = '300ms'")
        error = fails(connection, LONG, "57014")
        assert "0.3 s" in str(error), error
        connection.execute("RESET statement_timeout")
        leaving = connect()
        leaving.pgconn.send_query(LONG.encode())
        until(1)
        leaving.close()
        until(0)
    print("stopped")


def crowd():
    """Twenty connections with settings of their own do not disturb each other."""
    faults = []
    together = threading.Barrier(20)

    def talk(number):
        try:
            with connect(application_name=f"client {number}") as connection:
                connection.execute(f"SET statement_timeout = '{number + 10}s'")
                zone = "Asia/Tokyo" if number % 2 else "America/New_York"
                connection.execute(f"SET TIME ZONE '{zone}'")
                connection.execute("SELECT 1", prepare=True)
                together.wait(60)
                for turn in range(5):
                    assert one(connection, "SHOW statement_timeout") == (f"{number + 10}s",)
                    assert one(connection, "SHOW TimeZone") == (zone,)
                    assert one(connection, "SHOW application_name") == (f"client {number}",)
                    assert one(connection, "SELECT %s::int + %s::int", [number, turn]) == (number + turn,)
        except Exception as error:
            faults.append(f"{number}: {error!r}")
            together.abort()

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(20)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not faults, faults
    print("undisturbed")


def sqlalchemy():
    """Tables, views and schemas are listed, reflected with types and comments, and asked."""
    import sqlalchemy as sa

    engine = sa.create_engine(URL.replace("postgresql://", "postgresql+psycopg://"))
    inspector = sa.inspect(engine)
    tables, views = inspector.get_table_names(), inspector.get_view_names()
    assert {"spans", "requests", "tokens", "prices"} <= set(tables), tables
    assert {"calls", "ttft"} <= set(views) and not set(tables) & set(views), views
    assert {"public", "system"} <= set(inspector.get_schema_names())
    assert "freshness" in inspector.get_table_names(schema="system")
    with engine.connect() as connection:
        counted = connection.execute(sa.text("SELECT region, count(*) FROM requests GROUP BY region"))
        assert sum(row[1] for row in counted) > 0
    columns = {column["name"]: column for column in inspector.get_columns("requests")}
    assert isinstance(columns["time"]["type"], sa.TIMESTAMP) and columns["time"]["type"].timezone
    assert isinstance(columns["output_tokens"]["type"], sa.BigInteger), columns["output_tokens"]
    assert isinstance(columns["ttft_s"]["type"], sa.Double) and columns["ttft_s"]["comment"].endswith("[s]")
    assert not columns["time"]["nullable"] and columns["region"]["nullable"] and columns["region"]["default"] is None
    assert inspector.get_pk_constraint("requests")["constrained_columns"] == []
    for nothing in (inspector.get_foreign_keys, inspector.get_indexes, inspector.get_unique_constraints, inspector.get_check_constraints):
        assert nothing("requests") == [], nothing
    everything = sa.MetaData()
    everything.reflect(engine, views=True)
    assert set(everything.tables) == set(tables) | set(views), set(everything.tables) ^ (set(tables) | set(views))
    money = everything.tables["prices"].c.usd_per_hour.type
    assert isinstance(money, sa.Numeric) and (money.precision, money.scale) == (38, 12), money
    calls = sa.Table("calls", sa.MetaData(), autoload_with=engine)
    freshness = sa.Table("freshness", sa.MetaData(), schema="system", autoload_with=engine)
    with engine.connect() as connection:
        asked = sa.select(calls.c.region, sa.func.count()).where(calls.c.output_tokens >= 1).group_by(calls.c.region)
        assert sum(count for _, count in connection.execute(asked)) > 0
        newest = connection.execute(sa.select(freshness.c.lag_s).where(freshness.c.table == "requests")).scalar_one()
        assert newest >= 0
    print("reflected")


def adbc():
    """Arrow by COPY in binary, which is how this driver reads, and row by row."""
    import adbc_driver_postgresql.dbapi as dbapi

    with dbapi.connect(URL) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SELECT x, x * 0.5 AS half, 'row ' || x AS name, CAST(x AS DECIMAL(38,12)) AS money, "
                           "to_timestamp(x) AS at FROM generate_series(1, 20000) AS t(x) ORDER BY x")
            table = cursor.fetch_arrow_table()
            assert table.num_rows == 20000, table.num_rows
            assert table["x"][19999].as_py() == 20000 and table["half"][2].as_py() == 1.5
            assert table["name"][0].as_py() == "row 1"
            assert decimal.Decimal(str(table["money"][6].as_py())) == 7
            cursor.execute("SELECT * FROM requests LIMIT 5")
            assert cursor.fetch_arrow_table().num_rows == 5
            cursor.execute("SELECT 1 AS none WHERE false")
            assert cursor.fetch_arrow_table().num_rows == 0
        with connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
            cursor.execute("SELECT x FROM generate_series(1, 3) AS t(x)")
            assert cursor.fetch_arrow_table()["x"].to_pylist() == [1, 2, 3]
        schema = connection.adbc_get_table_schema("requests")
        assert "output_tokens" in schema.names, schema.names
    print("read")


def grafana():
    """What Grafana's PostgreSQL data source asks: its version check, its lists, and its macros as it expands them."""
    path = (
        "SELECT CASE WHEN trim(s[i]) = '\"$user\"' THEN user ELSE trim(s[i]) END FROM generate_series("
        "array_lower(string_to_array(current_setting('search_path'),','),1), "
        "array_upper(string_to_array(current_setting('search_path'),','),1)) as i, "
        "string_to_array(current_setting('search_path'),',') s"
    )
    with connect() as connection:
        assert one(connection, "SELECT current_setting('server_version_num')::int/100 as version") == (1600,)
        assert connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'").fetchall() == []
        tables = connection.execute(
            "select quote_ident(table_name) as \"table\" from information_schema.tables where "
            "quote_ident(table_schema) not in ('information_schema', 'pg_catalog', '_timescaledb_cache') and "
            f"quote_ident(table_schema) IN ({path})").fetchall()
        assert ("spans",) in tables and ("calls",) in tables and ("freshness",) not in tables, tables
        columns = connection.execute(
            "select quote_ident(column_name) as \"column\", data_type as \"type\" from information_schema.columns "
            f"where quote_ident(table_name) = 'requests' and quote_ident(table_schema) IN ({path})").fetchall()
        assert "output_tokens" in {name for name, _ in columns}, columns
        series = connection.execute(
            "SELECT floor(extract(epoch from time)/300)*300 AS \"time\", region AS metric, avg(ttft_s) AS value "
            "FROM requests WHERE time BETWEEN '2020-01-01T00:00:00Z' AND '2100-01-01T00:00:00Z' "
            "GROUP BY 1, 2 ORDER BY 1, 2").fetchall()
        assert series and float(series[0][0]) % 300 == 0, series
        assert connection.execute(
            "SELECT time AS \"time\", output_tokens FROM requests WHERE time >= to_timestamp(1577836800) AND "
            "extract(epoch from time) < 4102444800 ORDER BY time LIMIT 10").fetchall()
        assert one(connection, "SELECT version()")[0].endswith("PostgreSQL 16.6")
    print("drawn")


def ask():
    """One question, for logins: prints the answer, or the SQLSTATE of the refusal."""
    try:
        with connect() as connection:
            print(one(connection, "SELECT current_user")[0])
    except psycopg.Error as error:
        print(f"refused: {error}")


def each_driver(psycopg_does, sqlalchemy_does, adbc_does):
    """Has every driver do it, and prints what each says in one line."""
    import adbc_driver_postgresql.dbapi as dbapi
    import sqlalchemy as sa

    def of_sqlalchemy():
        engine = sa.create_engine(URL.replace("postgresql://", "postgresql+psycopg://"))
        try:
            with engine.connect() as connection:
                return sqlalchemy_does(engine, connection)
        finally:
            engine.dispose()

    def of_psycopg():
        with connect() as connection:
            return psycopg_does(connection)

    def of_adbc():
        with dbapi.connect(URL, autocommit=True) as connection, connection.cursor() as cursor:
            return adbc_does(cursor)

    for name, does in (("psycopg", of_psycopg), ("sqlalchemy", of_sqlalchemy), ("adbc", of_adbc)):
        try:
            said = does()
        except Exception as error:  # each driver has its own
            said = f"refused: {error}"
        print(f"{name}: {' '.join(str(said).split())}")


def login():
    """Every driver logs in and asks who it is."""
    import sqlalchemy as sa

    who = "SELECT current_user"
    each_driver(
        lambda connection: one(connection, who)[0],
        lambda _, connection: connection.execute(sa.text(who)).scalar_one(),
        lambda cursor: (cursor.execute(who), cursor.fetchone()[0])[1],
    )


WRITES = [
    "INSERT INTO requests (region) VALUES ('x')",
    "UPDATE requests SET region = 'x'",
    "DELETE FROM requests",
    "CREATE TABLE t (x INT)",
    "DROP TABLE requests",
    "COPY requests FROM STDIN",
    "COPY (SELECT 1) TO '/tmp/tokenwatt-must-not-exist.csv'",
]


def writes():
    """Every driver tries to write in every way it has, and reads on."""
    import pyarrow
    import sqlalchemy as sa

    def all_refused(calls, read, in_words=lambda error: "only reads" in error):
        for call in calls:
            try:
                call()
            except Exception as error:
                assert in_words(str(error)), f"{error!r} does not say that this interface only reads"
                continue
            raise AssertionError("a write was taken")
        assert read() == 1
        return f"{len(calls)} refused"

    def of_sqlalchemy(engine, connection):
        def execute(sql):
            with engine.connect() as other:
                other.execute(sa.text(sql))

        table = sa.Table("t", sa.MetaData(), sa.Column("x", sa.Integer))
        calls = [lambda sql=sql: execute(sql) for sql in WRITES]
        calls += [lambda: table.metadata.create_all(engine), lambda: connection.execute(table.insert().values(x=1))]
        with engine.connect() as reading:
            return all_refused(calls, lambda: reading.execute(sa.text("SELECT 1")).scalar_one())

    def of_adbc(cursor):
        calls = [lambda sql=sql: cursor.execute(sql) for sql in WRITES]
        calls.append(lambda: cursor.adbc_ingest("t", pyarrow.table({"x": [1]}), mode="create"))
        calls.append(lambda: cursor.adbc_ingest("requests", pyarrow.table({"region": ["x"]}), mode="append"))
        # Before it appends, the driver looks for columns to append to.
        in_words = lambda error: "only reads" in error or "does not exist in target table" in error
        return all_refused(calls, lambda: (cursor.execute("SELECT 1"), cursor.fetchone()[0])[1], in_words)

    def of_psycopg(connection):
        def copy():
            with connection.cursor().copy("COPY requests (region) FROM STDIN") as copying:
                copying.write_row(["x"])

        calls = [lambda sql=sql: connection.execute(sql) for sql in WRITES]
        calls += [lambda sql=sql: connection.execute(sql, prepare=True) for sql in WRITES] + [copy]
        return all_refused(calls, lambda: one(connection, "SELECT 1")[0])

    each_driver(of_psycopg, of_sqlalchemy, of_adbc)


def leaving():
    """Asks over one connection until the token has expired, then tries to come back."""
    with connect() as connection:
        answers, deadline = 0, time.monotonic() + 120
        try:
            while time.monotonic() < deadline:
                assert one(connection, "SELECT 1") == (1,)
                answers += 1
                time.sleep(0.2)
            raise AssertionError("the token never expires")
        except psycopg.OperationalError as error:
            # What libpq saw last: the connection is gone.
            print(f"{answers} answers, then {error.sqlstate} {error}")
    ask()


globals()[PART]()
