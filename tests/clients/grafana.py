"""Every panel and variable of our Grafana dashboards, asked over the PostgreSQL wire as Grafana's data source asks them.

Grafana itself is not run. What it does to a panel's text before it sends it is done here: the page puts in the values of variables and
the interval, the data source expands its macros.

usage: grafana.py POSTGRESQL_URL OTLP_URL SQL_URL DASHBOARDS
"""
import datetime
import json
import numbers
import pathlib
import re
import sys
import time

import psycopg

import lake_sql
from questions_fleet import MINUTES, SECOND, Fleet

URL, OTLP, SQL, FOLDER = sys.argv[1:5]
UTC = datetime.timezone.utc
SOURCE = "grafana-postgresql-datasource"
# What a panel's numbers are called says their unit; the first that fits counts.
UNITS = [
    ("tokens_per_s", "suffix: tokens/s"), ("tokens_per_j", "suffix: tokens/J"), ("calls_per_s", "reqps"), ("_usd_per_hour", "currencyUSD"),
    ("usd_per_hour", "currencyUSD"), ("_usd", "currencyUSD"), ("_share", "percentunit"), ("_burn", "none"), ("_s", "s"), ("_w", "watt"),
    ("_j", "joule"), ("_requests", "short"), ("_hosts", "short"), ("tokens", "short"), ("version", "none"),
]


def seconds(interval):
    return int(interval[:-1]) * {"s": 1, "m": 60, "h": 3600}[interval[-1]]


class Page:
    """What a dashboard knows when it asks: a range, an interval, the values chosen in its variables."""

    def __init__(self, since, until, interval):
        self.since, self.until, self.interval, self.chosen = since, until, interval, {}

    def asks(self, text):
        """The statement as it reaches the server."""
        known = {"__interval_ms": str(seconds(self.interval) * 1000), "__interval": self.interval, **self.chosen}
        for name in sorted(known, key=len, reverse=True):
            text = re.sub(rf"\$\{{{name}\}}|\${name}\b|\[\[{name}\]\]", lambda _: known[name], text)
        text = re.sub(r"\$([_a-zA-Z0-9]+)\(([^)]*)\)", self.macro, text)
        assert "$" not in text, f"what is left of the macros: {text}"
        return text

    def macro(self, found):
        name, arguments = found.group(1), [each.strip() for each in found.group(2).split(",")]
        since, until = (f"'{at:%Y-%m-%dT%H:%M:%SZ}'" for at in (self.since, self.until))
        if name == "__timeFilter":
            return f"{arguments[0]} BETWEEN {since} AND {until}"
        if name in ("__timeFrom", "__timeTo"):
            return since if name == "__timeFrom" else until
        if name in ("__timeGroup", "__timeGroupAlias"):
            width = seconds(arguments[1].strip("'"))
            alias = ' AS "time"' if name == "__timeGroupAlias" or found.string[found.end():].startswith(",") else ""
            return f"floor(extract(epoch from {arguments[0]})/{width})*{width}{alias}"
        raise AssertionError(f"no macro of the data source: {name}")

    def choose(self, variable, values):
        """A choice of several is a list of quoted texts, that of one is the text alone."""
        quoted = ["'" + value.replace("'", "''") + "'" for value in values]
        self.chosen[variable["name"]] = ",".join(quoted) if variable["multi"] else values[0]


def instant(value):
    """A `time` as Grafana reads it: an instant, or seconds since 1970."""
    if isinstance(value, datetime.datetime):
        return value
    return datetime.datetime.fromtimestamp(float(value), UTC)


def unit_of(column):
    return next((unit for ending, unit in UNITS if column.endswith(ending)), None)


def check(where, panel, connection, page):
    """One panel of one page: rows, each with its time; numbers under the unit that the panel declares."""
    (target,) = panel["targets"]
    sql = page.asks(target["rawSql"])
    try:
        cursor = connection.execute(sql)
    except psycopg.Error as error:
        raise AssertionError(f"{error}\n{sql}") from error
    names, rows = [column.name for column in cursor.description], cursor.fetchall()
    assert rows, f"no rows\n{sql}"
    at = names.index("time")
    times = [instant(row[at]) for row in rows]
    if target["format"] == "time_series":
        assert panel["type"] == "timeseries" and times == sorted(times), "not in the order of time"
        early = page.since - datetime.timedelta(seconds=seconds(page.interval))
        assert all(early < each <= page.until for each in times), f"times outside the range: {times[0]} {times[-1]}"
    own = {override["matcher"]["options"]: override["properties"][0]["value"] for override in panel["fieldConfig"]["overrides"]}
    assert set(own) <= set(names), f"units for columns that are not there: {set(own) - set(names)}"
    values = 0
    for index, name in enumerate(names):
        column = [row[index] for row in rows if row[index] is not None]
        if index == at or any(isinstance(value, (str, datetime.datetime)) for value in column):
            continue
        assert all(isinstance(value, numbers.Number) for value in column), f"{name} is neither a label nor a number"
        declared = own.get(name, panel["fieldConfig"]["defaults"]["unit"])
        assert unit_of(name) == declared, f"{name} is shown as {declared}, its name says {unit_of(name)}"
        values += bool(column)
    assert values, f"nothing but NULL\n{sql}"


def panels(board):
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def check_board(path, connection, page, known):
    """All of one dashboard. Returns how many panels it has."""
    board = json.loads(path.read_text())
    assert board["uid"] == f"tokenwatt-{path.stem}" and board["templating"]["list"], path
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids)), f"{path.stem}: ids twice"
    for variable in board["templating"]["list"]:
        values = [row[0] for row in connection.execute(page.asks(variable["query"])).fetchall()]
        assert values, f"{path.stem}: nothing to choose for {variable['name']}"
        page.choose(variable, values)
    for panel in panels(board):
        where = f"{path.stem}: {panel['title']}"
        try:
            check(where, panel, connection, page)
        except (AssertionError, ValueError) as fault:
            raise SystemExit(f"{where}: {fault}")
        tables = set(re.findall(r"\b(?:FROM|JOIN)\s+([a-z_0-9.]+)", panel["targets"][0]["rawSql"]))
        assert tables and tables <= known, f"{where}: asks {tables - known}"
        assert panel["datasource"]["type"] == SOURCE and panel["description"], where
    return len(panels(board))


def main():
    lake_sql.until(SQL, "SELECT name FROM slos", 1)
    # Objectives hold from the minute of the first start on, so the calls they judge arrive from this minute on.
    start = time.time_ns() // (60 * SECOND) * 60 * SECOND
    fleet = Fleet(start)
    fleet.send(OTLP)
    lake_sql.until(SQL, "SELECT trace_id FROM requests", sum(len(call["places"]) for call in fleet.calls))
    lake_sql.until(SQL, "SELECT 1 FROM tokens", sum(len(call["tokens"]) for call in fleet.calls))
    lake_sql.until(SQL, "SELECT 1 FROM devices WHERE energy_j IS NOT NULL", 5 * 64)
    lake_sql.until(SQL, "SELECT 1 FROM devices WHERE busy_us IS NOT NULL AND padding_us IS NOT NULL", 5 * 64)
    since = datetime.datetime.fromtimestamp(start // SECOND, UTC) - datetime.timedelta(minutes=5)
    until = since + datetime.timedelta(minutes=MINUTES + 10)
    boards, asked = sorted(pathlib.Path(FOLDER).glob("*.json")), 0
    with psycopg.connect(URL, autocommit=True) as connection:
        listed = connection.execute("SELECT table_schema, table_name FROM information_schema.tables").fetchall()
        known = {name if schema == "public" else f"{schema}.{name}" for schema, name in listed}
        for interval in ("1m", "5m"):
            for path in boards:
                asked += check_board(path, connection, Page(since, until, interval), known)
    print(f"{len(boards)} dashboards, {asked} panels drawn")


main()
