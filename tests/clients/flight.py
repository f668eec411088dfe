"""Flight SQL through ADBC and pyarrow.

usage: flight.py answers FLIGHT_URL HTTP_URL
       flight.py login FLIGHT_URL NAME TOKEN EXPIRED_TOKEN
"""
import json
import sys
import threading
import time
import urllib.request

import adbc_driver_flightsql
import adbc_driver_flightsql.dbapi as flight
import adbc_driver_manager
import pyarrow as pa
import pyarrow.flight

MODE, FLIGHT_URL, *REST = sys.argv[1:]
URI = FLIGHT_URL.replace("http://", "grpc://")
OPTIONS = adbc_driver_flightsql.DatabaseOptions
STATEMENT = adbc_driver_flightsql.StatementOptions


def refused(words, call):
    """The call fails, and what it says holds every one of the words."""
    try:
        call()
    except Exception as error:  # whatever the driver makes of a gRPC status
        missing = [word for word in words if word not in str(error)]
        assert not missing, f"{error!r} does not say {missing}"
        return
    raise AssertionError(f"not refused: {words}")


def over_http(url, sql):
    request = urllib.request.Request(
        f"{url}/api/v1/sql", json.dumps({"sql": sql}).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def same_rows(connection, http, sql):
    """Row by row what HTTP answers, with Arrow's own types."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        table = cursor.fetch_arrow_table()
    answer = over_http(http, sql)
    assert table.column_names == [column["name"] for column in answer["columns"]]
    assert table.num_rows == len(answer["rows"]) > 0, sql
    for row, wanted in zip(table.to_pylist(), answer["rows"]):
        for value, expected in zip(row.values(), wanted):
            assert plain(value) == expected, f"{sql}: {value!r} is not {expected!r}"
    return table


def plain(value):
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "isoformat"):
        return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, list):
        return {k: v for k, v in value} if value and isinstance(value[0], tuple) else [plain(v) for v in value]
    return str(value)


def answers(http):
    with flight.connect(URI) as connection:
        table = same_rows(connection, http, "SELECT time, trace_id, model, ttft_s, input_tokens FROM requests ORDER BY span_id")
        kinds = [str(field.type) for field in table.schema]
        assert kinds == ["timestamp[us, tz=UTC]", "string", "string", "double", "int64"], kinds
        assert table.schema.field("ttft_s").metadata[b"unit"] == b"s", table.schema.field("ttft_s").metadata
        same_rows(connection, http, "SELECT CAST(1.5 AS DECIMAL(38,12)) AS money, NULL AS nothing, ARRAY[1, 2] AS list, true AS yes")
        same_rows(connection, http, "EXPLAIN SELECT count(*) FROM requests")
        prepared(connection)
        listed(connection)
        refusals(connection)
        cancelled(connection)


def prepared(connection):
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM requests")
        every = cursor.fetchone()[0]
        sql = "SELECT count(*) FROM requests WHERE input_tokens >= $1 AND model = $2"
        cursor.execute("SELECT model, max(input_tokens) FROM requests GROUP BY 1 ORDER BY 1")
        model, most = cursor.fetchone()
        cursor.execute(sql, (0, model))
        assert 0 < cursor.fetchone()[0] <= every
        cursor.execute(sql, (most + 1, model))
        assert cursor.fetchone()[0] == 0
        refused(["2 parameters", "1 were given"], lambda: cursor.execute(sql, (1,)))
        cursor.execute("SELECT count(*) FROM requests WHERE time > $1", ("1999-01-01T00:00:00Z",))
        assert cursor.fetchone()[0] == every


def listed(connection):
    info = connection.adbc_get_info()
    assert info["vendor_name"] == "Tokenwatt", info
    assert connection.adbc_get_table_types() == ["BASE TABLE", "VIEW"]
    objects = connection.adbc_get_objects(depth="all").read_all().to_pylist()
    schemas = {schema["db_schema_name"]: schema for schema in objects[0]["catalog_db_schemas"]}
    assert objects[0]["catalog_name"] == "tokenwatt" and {"public", "system"} <= schemas.keys(), schemas.keys()
    tables = {table["table_name"]: table for table in schemas["public"]["db_schema_tables"]}
    columns = [column["column_name"] for column in tables["requests"]["table_columns"]]
    assert "ttft_s" in columns and tables["ttft"]["table_type"] == "VIEW"
    assert connection.adbc_get_table_schema("requests").field("ttft_s").type == pa.float64()


def refusals(connection):
    with connection.cursor() as cursor:
        refused(["only reads"], lambda: cursor.execute("CREATE TABLE t AS SELECT 1"))
        refused(["COPY"], lambda: cursor.execute("COPY (SELECT 1) TO '/tmp/out.csv'"))
        refused(["nowhere"], lambda: cursor.execute("SELECT * FROM nowhere"))
        refused(["ticket"], lambda: pyarrow.flight.connect(URI).do_get(pyarrow.flight.Ticket(foreign())).read_all())
    many = "SELECT * FROM generate_series(1, 300000)"
    with connection.cursor() as cursor:
        cursor.execute(many)
        refused(["query.max_rows"], cursor.fetch_arrow_table)


def foreign():
    """A TicketStatementQuery with a handle of somebody else."""
    handle = b"\x0a\x03abc"
    url = b"type.googleapis.com/arrow.flight.protocol.sql.TicketStatementQuery"
    return b"\x0a" + bytes([len(url)]) + url + b"\x12" + bytes([len(handle)]) + handle


LONG = "SELECT sum(a.value * b.value) FROM generate_series(1, 1000000) a CROSS JOIN generate_series(1, 1000000) b"


def cancelled(connection):
    def running():
        with connection.cursor() as other:
            other.execute("SELECT count(*) FROM system.queries WHERE sql LIKE 'SELECT sum(a.value%'")
            return other.fetchone()[0]

    with connection.cursor() as cursor:
        failed = []

        def run():
            try:
                cursor.execute(LONG)
                cursor.fetchone()
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        deadline = time.monotonic() + 60
        while not running() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert running(), "the long query never ran"
        cursor.adbc_cancel()
        thread.join(60)
        assert failed, "the query went on"
        while running() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not running(), "it runs although nobody waits for it"
    with connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{STATEMENT.TIMEOUT_FETCH.value: 0.5, STATEMENT.TIMEOUT_QUERY.value: 5.0})
        refused([], lambda: (cursor.execute(LONG), cursor.fetchone()))


def login(name, token, expired):
    bearer = {OPTIONS.AUTHORIZATION_HEADER.value: f"Bearer {token}"}
    password = {"username": name, "password": token}
    for options in (bearer, password):
        with flight.connect(URI, options) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM requests")
            print(cursor.fetchone()[0])
    client = pyarrow.flight.connect(URI)
    header, value = client.authenticate_basic_token(name, token)
    assert (header, value) == (b"authorization", f"Bearer {token}".encode())
    refused(["belongs to no principal"], lambda: ask({OPTIONS.AUTHORIZATION_HEADER.value: "Bearer tw_wrong"}))
    refused(["belongs to no principal"], lambda: ask({"username": name, "password": "wrong"}))
    refused(["no token"], lambda: ask({}))
    late = ["expired at 2020-01-01T00:00:00Z", "tokenwatt token"]
    refused(late, lambda: ask({OPTIONS.AUTHORIZATION_HEADER.value: f"Bearer {expired}"}))
    refused(late, lambda: ask({"username": name, "password": expired}))
    refused(late, lambda: client.authenticate_basic_token(name, expired))
    writes(bearer)


def writes(options):
    """Whatever a driver has for writing is refused, and it reads on."""
    with flight.connect(URI, options, autocommit=True) as connection, connection.cursor() as cursor:
        for sql in ("INSERT INTO requests (region) VALUES ('x')", "DELETE FROM requests", "DROP TABLE requests"):
            refused(["only reads"], lambda: cursor.execute(sql))
            cursor.adbc_statement.set_sql_query(sql)
            refused(["only reads"], cursor.adbc_statement.execute_update)
            cursor.adbc_statement.set_sql_query(sql)
            refused(["only reads"], cursor.adbc_statement.prepare)
        refused([], lambda: cursor.adbc_ingest("t", pa.table({"x": [1]}), mode="create"))
        refused([], lambda: cursor.adbc_ingest("requests", pa.table({"region": ["x"]}), mode="append"))
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


def ask(options):
    with flight.connect(URI, options) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")


if MODE == "answers":
    answers(*REST)
else:
    login(*REST)
