"""Reads a long answer and kills a process once its first rows are here: how many rows came, and how the answer ended.

usage: torn.py postgresql|flight URL PID SQL       prints {"rows": …, "error": … or null, "after": what is counted afterwards}
"""
import json
import os
import signal
import sys

FRONT, URL, PID, SQL = sys.argv[1:5]
AFTER = "SELECT count(*) FROM tokens"


def postgresql():
    import psycopg

    with psycopg.connect(URL, autocommit=True) as connection:
        read, error = 0, None
        try:
            for _ in connection.cursor().stream(SQL):
                read += 1
                if read == 1:
                    os.kill(int(PID), signal.SIGKILL)
        except psycopg.Error as failed:
            error = f"{failed.sqlstate} {failed}"
        return read, error, connection.execute(AFTER).fetchone()[0]


def flight():
    import adbc_driver_flightsql.dbapi as dbapi

    with dbapi.connect(URL.replace("http://", "grpc://"), autocommit=True) as connection:
        read, error = 0, None
        with connection.cursor() as cursor:
            try:
                cursor.execute(SQL)
                reader = cursor.fetch_record_batch()
                for batch in reader:
                    if read == 0 < batch.num_rows:
                        os.kill(int(PID), signal.SIGKILL)
                    read += batch.num_rows
            except Exception as failed:  # whatever the driver makes of a gRPC status
                error = str(failed)
        with connection.cursor() as cursor:
            cursor.execute(AFTER)
            return read, error, cursor.fetchone()[0]


rows, error, after = {"postgresql": postgresql, "flight": flight}[FRONT]()
print(json.dumps({"rows": rows, "error": error, "after": after}))
