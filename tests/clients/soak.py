"""Many clients at once over HTTP, PostgreSQL's wire and Flight SQL, some of them asking for more than is allowed.

Each limit ends a query with an error that names it and its setting, while the others are answered. Afterwards the server's sockets, files
and threads are as many as they were.

usage: soak.py PID HTTP_URL POSTGRESQL_URL FLIGHT_URI CLIENTS SECONDS
"""
import collections
import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request

import adbc_driver_flightsql.dbapi as flight
import psycopg

PID, HTTP, POSTGRES, FLIGHT = sys.argv[1:5]
CLIENTS, SECONDS = int(sys.argv[5]), float(sys.argv[6])
FRONTS = ("http", "postgresql", "flight")
ROWS = "SELECT x FROM generate_series(1, 200000) AS t(x)"
GOOD = [
    "SELECT 1",
    "SELECT region, count(*) FROM calls GROUP BY region",
    "SELECT exph_quantile(exph(ttft_s), 0.99) FROM ttft WHERE measured_at = 'server'",
    "SELECT \"table\", version FROM system.freshness",
]
# What is asked for too much of, and the setting that the error must name.
GREEDY = [
    ("SELECT count(v) FROM (SELECT array_agg(x) OVER (ORDER BY x) AS v FROM generate_series(1, 20000) AS t(x))", "query."),
    ("SELECT cardinality(array_agg(repeat('y', 10000))) FROM generate_series(1, 20000)", "query.memory_bytes_per_query"),
    ("SELECT repeat('x', 1000000) FROM generate_series(1, 10000)", "query.column_bytes_max"),
    ("SELECT count(*) FROM generate_series(1, 100000) AS a(x), generate_series(1, 100000) AS b(y) WHERE a.x + b.y = 1", "query.timeout_ms"),
]
# No place, or none in time: not an answer, and not a fault of the one who asked, who asks again.
BUSY = ("query.concurrency", "query.waiting", "query.timeout_ms")


class Client:
    """One connection of one front; a refusal is its text."""

    def __init__(self, front):
        self.front = front
        if front == "postgresql":
            self.connection = psycopg.connect(POSTGRES, autocommit=True)
        elif front == "flight":
            self.connection = flight.connect(FLIGHT, autocommit=True)

    def ask(self, sql):
        """Rows, or the error as text."""
        try:
            return self.rows(sql)
        except (psycopg.Error, flight.Error) as error:
            return str(error)
        except urllib.error.HTTPError as error:
            return error.read().decode()

    def rows(self, sql):
        if self.front == "http":
            request = urllib.request.Request(HTTP + "/api/v1/sql", data=sql.encode(), headers={"content-type": "text/plain"})
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["rows"]
        if self.front == "postgresql":
            return self.connection.execute(sql).fetchall()
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall()

    def close(self):
        if self.front != "http":
            self.connection.close()


def held():
    """Files and sockets, and threads, of the server now."""
    return len(os.listdir(f"/proc/{PID}/fd")), len(os.listdir(f"/proc/{PID}/task"))


def rss_mb():
    with open(f"/proc/{PID}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) // 1024


def metric(name):
    with urllib.request.urlopen(HTTP + "/metrics", timeout=60) as page:
        lines = page.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


def least(patience_s, wanted=(0, 0)):
    """The fewest that are held at once until they are as few as wanted, or patience ends. What comes and goes is not counted."""
    fewest, deadline = held(), time.monotonic() + patience_s
    while any(now > want for now, want in zip(fewest, wanted)) and time.monotonic() < deadline:
        time.sleep(0.1)
        fewest = tuple(map(min, fewest, held()))
    return fewest


def talk(front, greedy, until, counts, faults):
    """Asks until the time is up, once at least."""
    client, turn = Client(front), 0
    try:
        while time.monotonic() < until or turn == 0:
            sql, setting = greedy or (GOOD[turn % len(GOOD)], None)
            answer = client.ask(sql)
            if isinstance(answer, str) and any(busy in answer for busy in BUSY if busy != setting):
                counts[front, "busy"] += 1
                time.sleep(0.05)
                continue
            turn += 1
            if setting is None and isinstance(answer, str):
                faults.append(f"{front}: {sql}: {answer}")
            elif setting is not None and not (isinstance(answer, str) and setting in answer):
                faults.append(f"{front}: {sql}: names no {setting}: {str(answer)[:500]}")
            counts[front, "refused" if setting else "answered"] += 1
    except Exception as error:
        faults.append(f"{front}: {error!r}")
    finally:
        client.close()


def crowd(clients, seconds):
    """So many at once for so long. Every tenth is greedy."""
    counts, faults, until = collections.Counter(), [], time.monotonic() + seconds
    threads = []
    for number in range(clients):
        greedy = GREEDY[number // 10 % len(GREEDY)] if number % 10 == 9 else None
        threads.append(threading.Thread(target=talk, args=(FRONTS[number % 3], greedy, until, counts, faults)))
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not faults, "\n".join(faults[:10])
    return counts


def cut():
    """More rows than an answer may have: said in JSON, an error where there is no word for it."""
    for front in FRONTS:
        client = Client(front)
        answer = client.ask(ROWS)
        if front == "http":
            assert len(answer) < 200_000, len(answer)
        else:
            assert isinstance(answer, str) and "query.max_rows" in answer, f"{front}: {str(answer)[:300]}"
        client.close()


def settled():
    """What is held once every place has its threads, which start when they are first needed. A leak adds to it with each round."""
    before = least(20)
    for _ in range(8):
        crowd(CLIENTS, 2)
        then, before = before, least(60, before)
        if all(now <= old for now, old in zip(before, then)):
            return before
    raise AssertionError(f"files and threads grow with every round: {before}")


def main():
    cut()
    before, rss = settled(), rss_mb()
    counts = crowd(CLIENTS, SECONDS)
    for front in FRONTS:
        assert counts[front, "answered"] and counts[front, "refused"], counts
    after = least(120, before)
    assert all(now <= then for now, then in zip(after, before)), f"{after} files and threads, {before} before"
    for name in ("tokenwatt_query_running", "tokenwatt_query_connections", "tokenwatt_query_stopping"):
        assert metric(name) <= 0, f"{name} is {metric(name)}"
    said = ", ".join(f"{front} {what} {count}" for (front, what), count in sorted(counts.items()))
    print(f"files and threads {before} before, {after} after; RSS {rss} MB before, {rss_mb()} MB after; {said}")


main()
