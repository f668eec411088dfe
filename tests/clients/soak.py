"""Many clients at once over HTTP, PostgreSQL's wire and Flight SQL, some of them asking for more than is allowed.

Each limit ends a query with an error that names it and its setting, while the others are answered. Afterwards the server holds what it
held before, told by kind: no socket of a client, no spilled file, no file that was deleted, no more of anything else; and its memory is
within a bound of what it was.

usage: soak.py PID HTTP_URL POSTGRESQL_URL FLIGHT_URI SPILL_DIRECTORY CLIENTS SECONDS       SECONDS 0: a few questions of each client
"""
import collections
import json
import os
import pathlib
import sys
import threading
import time
import urllib.error
import urllib.request

import adbc_driver_flightsql.dbapi as flight
import psycopg

PID, HTTP, POSTGRES, FLIGHT, SPILL = sys.argv[1:6]
CLIENTS, SECONDS = int(sys.argv[6]), float(sys.argv[7])
PROC = pathlib.Path("/proc", PID)
FRONTS = ("http", "postgresql", "flight")
# Questions of each client where no time is given.
TURNS = 3
# Milliseconds that the endless one asks for, where its protocol has a word for it whose end the server tells.
SHORT_MS = 2000
# How long what comes and goes is watched for its least, and how long a client that left may take to be gone, seconds.
WATCHED_S, GONE_S = 5, 120
# Threads that may be left: those of pools that the service's own work begins with when it comes to it, such as roll-ups. Clients that
# left theirs would leave a hundred.
THREADS = 8
# Resident bytes that may be left after the clients, beside those after as many clients before them: what the allocator keeps of freed
# pages for each of its heaps, one per thread that ever allocated, and caches that fill up to their bounds while the service runs.
GROWTH, GROWTH_BYTES = 1.25, 64 << 20

# A sort that spills: its rows are more than a query may hold.
SORTED = "SELECT count(*), max(n) FROM (SELECT row_number() OVER (ORDER BY x * 7919 % 1000003) AS n FROM generate_series(1, 1800000) AS t(x))"
GOOD = [
    "SELECT 1",
    "SELECT region, count(*) FROM calls GROUP BY region",
    "SELECT exph_quantile(exph(ttft_s), 0.99) FROM ttft WHERE measured_at = 'server'",
    "SELECT \"table\", version FROM system.freshness",
]
ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000) AS a(x), generate_series(1, 1000000) AS b(y) WHERE a.x + b.y = 1"
# What is asked for too much of, and the setting that the error must name.
GREEDY = [
    ("SELECT cardinality(array_agg(repeat('y', 1000))) FROM generate_series(1, 200000)", "query.memory_bytes_per_query"),
    (ENDLESS, "query.timeout_ms"),
    ("SELECT x FROM generate_series(1, 30000) AS t(x)", "query.max_rows"),
    ("SELECT repeat('x', 1000000) FROM generate_series(1, 10000)", "query.column_bytes_max"),
    ("SELECT repeat('z', 1000) FROM generate_series(1, 19000)", "query.answer_bytes_max"),
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
            body = {"sql": sql} | ({"timeout_ms": SHORT_MS} if sql == ENDLESS else {})
            headers = {"content-type": "application/json"}
            request = urllib.request.Request(HTTP + "/api/v1/sql", data=json.dumps(body).encode(), headers=headers)
            with urllib.request.urlopen(request, timeout=300) as answer:
                said = json.load(answer)
            # JSON has a word for a cut, and no error.
            return f"cut at query.max_rows: {len(said['rows'])}" if said["truncated"] else said["rows"]
        if self.front == "postgresql":
            self.connection.execute(f"SET statement_timeout = {SHORT_MS if sql == ENDLESS else 0}")
            return self.connection.execute(sql).fetchall()
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall()

    def close(self):
        if self.front != "http":
            self.connection.close()


def sockets():
    """Inode of every TCP socket on this machine: state, local port."""
    found = {}
    for name in ("tcp", "tcp6"):
        for line in (PROC / "net" / name).read_text().splitlines()[1:]:
            words = line.split()
            found[words[9]] = (words[3], int(words[1].rsplit(":", 1)[1], 16))
    return found


# States of a TCP socket in /proc/net/tcp.
LISTEN = "0A"


def kind(link, known, listening):
    """What a descriptor is, such that equal things are called equally."""
    if link.startswith("socket:"):
        state, port = known.get(link[len("socket:["):-1], (None, None))
        if state == LISTEN:
            return f"listener of {port}"
        if port in listening:
            return "socket of a client"
        return "socket to elsewhere" if port else "socket without an address"
    if link.startswith("/"):
        path = link.removesuffix(" (deleted)")
        if path.startswith(SPILL):
            return "spilled file"
        if link != path:
            return "deleted file"
        return f"file {pathlib.Path(path).parent}/*{pathlib.Path(path).suffix}"
    # pipe:[…], anon_inode:[eventpoll]
    return link if link.startswith("anon_inode") else link.split(":")[0]


def held():
    """How many descriptors of each kind the server has now, and how many threads."""
    known = sockets()
    links = []
    for entry in os.listdir(PROC / "fd"):
        try:
            links.append(os.readlink(PROC / "fd" / entry))
        except FileNotFoundError:
            pass
    inodes = [link[len("socket:["):-1] for link in links if link.startswith("socket:")]
    listening = {known[inode][1] for inode in inodes if inode in known and known[inode][0] == LISTEN}
    counts = collections.Counter(kind(link, known, listening) for link in links)
    counts["thread"] = len(os.listdir(PROC / "task"))
    return counts


def least(seconds):
    """The fewest of each kind at any time: files that the collector opens for a moment are not held."""
    fewest, deadline = held(), time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(0.1)
        fewest &= held()
    return fewest


def none_of_clients(counts):
    return not any(counts[gone] for gone in ("socket of a client", "spilled file", "deleted file"))


def settled(wanted):
    """The fewest of each kind, once they are no more than wanted, or patience ends."""
    fewest, deadline = held(), time.monotonic() + GONE_S
    while not (fewest <= wanted and none_of_clients(fewest)) and time.monotonic() < deadline:
        time.sleep(0.1)
        fewest &= held()
    return fewest


def rss():
    status = (PROC / "status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) * 1024


def metric(name):
    with urllib.request.urlopen(HTTP + "/metrics", timeout=60) as page:
        lines = page.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


def talk(front, asked, until, counts, faults):
    """Asks until the time is up, and a few times at least."""
    client, turn = Client(front), 0
    try:
        while turn < TURNS or time.monotonic() < until:
            sql, setting = asked[turn % len(asked)]
            answer = client.ask(sql)
            is_refusal = isinstance(answer, str)
            if is_refusal and any(busy in answer for busy in BUSY if busy != setting):
                counts[front, "busy"] += 1
                time.sleep(0.05)
                continue
            turn += 1
            if setting is None and (is_refusal or not answer):
                faults.append(f"{front}: {sql}: {answer}")
            elif setting is not None and not (is_refusal and setting in answer):
                faults.append(f"{front}: {sql}: names no {setting}: {str(answer)[:500]}")
            counts[front, "refused" if setting else "answered"] += 1
    except Exception as error:
        faults.append(f"{front}: {error!r}")
    finally:
        client.close()


def crowd(seconds):
    """All clients at once. Every tenth is greedy, and one sorts more than fits into its memory."""
    counts, faults, until, threads = collections.Counter(), [], time.monotonic() + seconds, []
    for number in range(CLIENTS):
        asked = [(sql, None) for sql in GOOD]
        if number % 10 == 9:
            # Greedy clients of every front ask for too much of everything in turn.
            start = number // 10 % len(GREEDY)
            asked = GREEDY[start:] + GREEDY[:start]
            if FRONTS[number % 3] == "flight":
                asked = [(sql, setting) for sql, setting in asked if sql != ENDLESS]
        elif number == 4:
            asked = [(SORTED, None), ("SELECT 1", None)]
        threads.append(threading.Thread(target=talk, args=(FRONTS[number % 3], asked, until, counts, faults)))
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not faults, "\n".join(faults[:10])
    return counts


def answered(client, sql, setting=None):
    """What there is to say once there was a place and time for it."""
    while True:
        answer = client.ask(sql)
        if not (isinstance(answer, str) and any(busy in answer for busy in BUSY if busy != setting)):
            return answer


def limits():
    """Each limit over each front, with the setting in the words."""
    for front in FRONTS:
        client = Client(front)
        for sql, setting in GREEDY:
            answer = answered(client, sql, setting)
            assert isinstance(answer, str) and setting in answer, f"{front}: {sql} names no {setting}: {str(answer)[:500]}"
        assert list(answered(client, SORTED)[0]) == [1800000, 1800000]
        client.close()


def main():
    limits()
    # Threads and caches come with the first that need them.
    crowd(0)
    settled(held())
    before, rss_before = least(WATCHED_S), rss()
    assert none_of_clients(before), before
    started = time.monotonic()
    counts = crowd(SECONDS)
    took = time.monotonic() - started
    for front in FRONTS:
        assert counts[front, "answered"] and counts[front, "refused"], counts
    before["thread"] += THREADS
    after = settled(before)
    more = after - before
    assert not more and none_of_clients(after), f"it holds more than before: {dict(more)}\nbefore {dict(before)}\nafter {dict(after)}"
    left = os.listdir(SPILL)
    spilled = [path for path in pathlib.Path(SPILL).rglob("*") if path.is_file()]
    assert not spilled, f"spilled files are left: {spilled[:5]} in {left}"
    for name in ("tokenwatt_query_running", "tokenwatt_query_connections", "tokenwatt_query_stopping"):
        # The service asks itself now and then, for the series of this page.
        deadline = time.monotonic() + GONE_S
        while metric(name) > 0:
            assert time.monotonic() < deadline, f"{name} never becomes 0"
            time.sleep(0.1)
    rss_after = rss()
    assert rss_after <= rss_before * GROWTH + GROWTH_BYTES, f"RSS {rss_before >> 20} MiB before, {rss_after >> 20} MiB after"
    said = ", ".join(f"{front} {what} {count}" for (front, what), count in sorted(counts.items()))
    print(f"{CLIENTS} clients for {took:.0f} s: {said}")
    print(f"RSS {rss_before >> 20} MiB before, {rss_after >> 20} MiB after; {sum(after.values())} descriptors and threads: {dict(after)}")


if __name__ == "__main__":
    main()
