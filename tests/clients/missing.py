"""What PostgreSQL and Flight SQL clients are told of a lake that is missing.

usage: missing.py POSTGRESQL_URL FLIGHT_URL NEEDS_IT SPARES_IT WORDS
"""
import sys

import adbc_driver_flightsql.dbapi as dbapi
import psycopg
import pyarrow.flight

POSTGRES, FLIGHT, NEEDS, SPARES, WORDS = sys.argv[1:6]
FLIGHT = FLIGHT.replace("http://", "grpc://")


class Headers(pyarrow.flight.ClientMiddlewareFactory):
    """Keeps the headers of every call's answer."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def start_call(self, info):
        return Kept(self.seen)


class Kept(pyarrow.flight.ClientMiddleware):
    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def received_headers(self, headers):
        self.seen.append(headers)


def over_postgresql(sql, **options):
    """The notices beside the answer, as severity, SQLSTATE and text."""
    notices = []
    with psycopg.connect(POSTGRES, autocommit=True) as connection:
        connection.add_notice_handler(lambda told: notices.append((told.severity, told.sqlstate, told.message_primary)))
        assert connection.execute(sql, **options).fetchone() == (20,)
        assert connection.execute("SELECT 1").fetchone() == (1,)
    return notices


def over_flight(sql):
    """The notice in the headers of the call that brings the rows."""
    headers = Headers()
    client = pyarrow.flight.FlightClient(FLIGHT, middleware=[headers])
    statement = sql.encode()
    url = b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery"
    command = b"\x0a" + bytes([len(statement)]) + statement
    info = client.get_flight_info(
        pyarrow.flight.FlightDescriptor.for_command(b"\x0a" + bytes([len(url)]) + url + b"\x12" + bytes([len(command)]) + command)
    )
    headers.seen.clear()
    table = client.do_get(info.endpoints[0].ticket).read_all()
    assert table.column(0).to_pylist() == [20], table
    return [value for seen in headers.seen for value in seen.get("x-tokenwatt-notice", [])]


for options in ({}, {"prepare": True}):
    told = over_postgresql(NEEDS, **options)
    assert len(told) == 1 and told[0][:2] == ("WARNING", "01000") and told[0][2].startswith(WORDS), told
    assert over_postgresql(SPARES, **options) == []
told = over_flight(NEEDS)
assert len(told) == 1 and told[0].startswith(WORDS), told
assert over_flight(SPARES) == []
# A driver that shows no headers answers all the same.
with dbapi.connect(FLIGHT, autocommit=True) as connection, connection.cursor() as cursor:
    cursor.execute(NEEDS)
    assert cursor.fetchone() == (20,)
print("told")
