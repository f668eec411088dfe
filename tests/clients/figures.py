"""Compares every number on the dashboard's pages with the SQL behind it.

usage: figures.py URL FROM TO    (RFC 3339; a stretch of time that is over)

A page that stands still is opened. Each statement that its panels offer ("Copy SQL") has absolute times and the versions that answered it:
it is run at those versions, and every cell, tile and chart of the panel is looked for in what it answers. Prints one line per page; an
assertion ends it.
"""

import csv
import io
import json
import math
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree
from datetime import datetime, timezone

import pyarrow.parquet

from chromium import PATIENCE_S, browser

BASE, FROM, TO = sys.argv[1:4]
UNKNOWN = "—"

# What a page shows, as it is in the document: panels with their statements, tables, charts; tiles with theirs.
READ = """
const text = node => (node.textContent || '').trim();
const own = cell => [...cell.childNodes].filter(n => n.nodeName !== 'SMALL').map(text).join(' ').trim();
const rows = table => [...table.tBodies].flatMap(body => [...body.rows]).map(row => ({
  total: row.classList.contains('total'),
  cells: [...row.cells].map(cell => ({num: cell.classList.contains('num'), text: own(cell),
    small: [...cell.querySelectorAll('small')].map(text)}))}));
const tables = root => [...root.querySelectorAll('table')].filter(t => !t.closest('details.data')).map(t => ({
  heads: t.tHead ? [...t.tHead.rows[0].cells].map(text) : [], rows: rows(t)}));
const charts = root => [...root.querySelectorAll('svg.chart')].map(svg => ({label: svg.getAttribute('aria-label'),
  kind: svg.querySelector('.heat') ? 'heat' : svg.classList.contains('tokens') ? 'tokens' : 'lines',
  hover: JSON.parse(svg.dataset.hover)}));
const shown = root => [...root.querySelectorAll('details.data table')].map(t => ({
  heads: [...t.tHead.rows[0].cells].map(text), rows: rows(t)}));
return {
  failed: [...document.querySelectorAll('.card.error, #notices .card')].map(text),
  pending: document.body.innerText.includes('on its way'),
  panels: [...document.querySelectorAll('section.panel[id]')].map(p => ({id: p.id,
    statements: [...p.querySelectorAll('details.sql li')].map(li => ({name: text(li.querySelector('b')), sql: text(li.querySelector('pre'))})),
    tables: tables(p), charts: charts(p), below: shown(p),
    legends: [...p.querySelectorAll('ul.legend li')].filter(li => li.querySelector('b')).map(li => ({text: text(li.querySelector('b')),
      name: [...li.childNodes].filter(n => n.nodeType === 3).map(text).join('')})),
    facts: [...p.querySelectorAll('dl div')].map(d => ({name: text(d.querySelector('dt')), text: own(d.querySelector('dd')), of: text(d.closest('article').querySelector('h3 a'))}))})),
  tiles: [...document.querySelectorAll('.tile')].map(t => ({label: t.querySelector('h2').firstChild.textContent.trim(), text: text(t.querySelector('.value b')) + ' ' + text(t.querySelector('.value .unit')),
    link: t.querySelector('a.sql').getAttribute('href')})),
};
"""


# ---- the answers


ANSWERS = {}


def answer(statement, versions):
    """Rows of a statement as dicts, at these versions."""
    key = (statement, json.dumps(versions, sort_keys=True))
    if key not in ANSWERS:
        assert "now()" not in statement, f"the statement moves with the clock:\n{statement}"
        body = json.dumps({"sql": statement, "version": versions}).encode()
        request = urllib.request.Request(BASE + "/api/v1/sql", body, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
                told = json.load(reply)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{error.read().decode()}\n{statement}") from error
        assert told["version"] == versions, f"asked at {versions}, answered at {told['version']}\n{statement}"
        names = [column["name"] for column in told["columns"]]
        ANSWERS[key] = [{name: value_of(value) for name, value in zip(names, row)} for row in told["rows"]]
    return ANSWERS[key]


def copied(text):
    """A statement as it is copied: the versions stand above it."""
    first, rest = text.split("\n", 1)
    told = re.fullmatch(r"-- answered from versions: (.*)", first)
    assert told, f"the statement does not say its versions:\n{text}"
    return rest, {name: int(version) for name, version in (pin.rsplit(" ", 1) for pin in told[1].split(", "))}


def linked(link):
    """The same of a link to the SQL page."""
    fields = urllib.parse.parse_qs(urllib.parse.urlsplit(link).query)
    pins = (pin.rsplit(":", 1) for pin in fields["v"][0].split(","))
    return fields["q"][0], {name: int(version) for name, version in pins}


INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?")


def value_of(value):
    """Numbers as floats, also those that travel as text; instants as seconds, in an `Instant`."""
    if isinstance(value, str):
        if INSTANT.fullmatch(value):
            return Instant(datetime.fromisoformat(value.rstrip("Z")).replace(tzinfo=timezone.utc).timestamp())
        try:
            number = float(value)
            return number if math.isfinite(number) else value
        except ValueError:
            return value
    return value


class Instant(float):
    def day(self):
        return datetime.fromtimestamp(self, timezone.utc).strftime("%Y-%m-%d")

    def stamp(self):
        at = datetime.fromtimestamp(math.floor(self * 1000 + 0.0005) / 1000, timezone.utc)
        return at.strftime("%m-%d %H:%M:%S.") + f"{at.microsecond // 1000:03}"


# ---- what is written


# What a unit is of the one that answers have.
UNITS = {
    "": 1, "%": 0.01, "×": 1, "µs": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "d": 86400, "tok": 1, "ktok": 1e3, "Mtok": 1e6,
    "Gtok": 1e9, "tok/s": 1, "ktok/s": 1e3, "Mtok/s": 1e6, "req/s": 1, "kreq/s": 1e3, "tok/J": 1, "J": 1, "kJ": 1e3, "MJ": 1e6, "GJ": 1e9,
    "W": 1, "kW": 1e3, "MW": 1e6, "J/tok": 1, "kWh": 3.6e6, "g": 1, "kg": 1e3, "kg CO2e": 1e3, "°C": 1, "/h": 1, "/M tok": 1, "B": 1,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "kg_": 1e3, "Mg": 1e6,
}
WRITTEN = re.compile(r"(?:▲ ?|▼ ?|± ?)?(<?)(-?)\$?(-?[\d\u202f ,]*\d(?:\.\d+)?)[\u202f\u00a0 ]?(.*)")


class Written:
    """A number as a page writes it: what it is, and how far from it the one that was meant may be."""

    def __init__(self, text):
        found = WRITTEN.fullmatch(text.strip())
        assert found and found[4].strip() in UNITS, f"{text!r} is no number with a unit"
        digits = re.sub(r"[\u202f ,]", "", found[3])
        scale = UNITS[found[4].strip()]
        self.text, self.below = text, found[1] == "<"
        self.value = float(found[2] + digits) * scale
        places = len(digits.split(".")[1]) if "." in digits else 0
        self.slack = 0.5 * 10.0**-places * scale

    def is_of(self, number):
        if self.below:
            return 0 <= number < self.value
        # Half of the last digit; sums of floats end in different places.
        return abs(self.value - number) <= self.slack * 1.000_001 + abs(number) * 1e-9


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, (bool, Instant))


# ---- what is looked for


SECONDS = datetime.fromisoformat(TO).timestamp() - datetime.fromisoformat(FROM).timestamp()
# t-digests of several streams differ from run to run; everything else is the same to the last digit.
LOOSE = "approx_percentile_cont"


class Panel:
    """A panel of a page with the rows of each of its statements, by the statement's name."""

    def __init__(self, path, shown):
        self.path, self.id, self.shown = path, shown["id"], shown
        asked = {item["name"]: copied(item["sql"]) for item in shown["statements"]}
        self.rows = {name: answer(*statement) for name, statement in asked.items()}
        self.loose = {name: LOOSE in statement for name, (statement, _) in asked.items()}
        self.count = 0

    def where(self):
        return f"{self.path}, panel {self.id}"

    def check(self):
        for chart in self.shown["charts"]:
            self.chart(chart)
        for table in self.shown["tables"]:
            for row in table["rows"]:
                self.row(table["heads"], row)
        for table in self.shown["below"]:
            self.below(table)
        for legend in self.shown["legends"]:
            self.expect(legend["text"], self.legend(legend["name"]), f"the legend {legend['name']}")
        for fact in self.shown["facts"]:
            self.expect(fact["text"], self.fact(fact), f"{fact['name']} of {fact['of']}")
        return self.count

    def expect(self, text, candidates, what):
        """A cell is one of the numbers that it may be; unknown is only what the answers do not know."""
        if text == "":
            return
        candidates = list(candidates)
        if overspent := re.fullmatch(r"none, (.*) spent", text):
            text, candidates = overspent[1], [1 - left for left in candidates]
        known = [number for number in candidates if is_number(number)]
        if text == UNKNOWN:
            assert not candidates or len(known) < len(candidates), f"{self.where()}: {what} is not known, though the SQL says {known}"
            return
        written = Written(text)
        slack = 0.02 if any(self.loose.values()) else 0
        near = any(written.is_of(number) or abs(written.value - number) <= abs(number) * slack for number in known)
        assert near, f"{self.where()}: {what} is shown as {text!r}, the SQL says {sorted(set(known))}"
        self.count += 1

    # -- tables

    def row(self, heads, row):
        words = {cell["text"] for cell in row["cells"] if not cell["num"] and cell["text"]}
        words |= {word for cell in row["cells"] for word in cell["small"] if not cell["num"]}
        for head, cell in zip(heads or [row["cells"][0]["text"]] * len(row["cells"]), row["cells"]):
            if not cell["num"] or (self.id, head) in WORDS:
                continue
            derived = DERIVED.get((self.id, head)) or DERIVED.get((self.id, None))
            if row["total"]:
                derived = TOTALS[self.id, head]
            if derived:
                found = derived(self, self.own(words), row, head)
            else:
                found = [value for rows in self.own(words).values() for one in rows for value in one.values()
                         if value is None or is_number(value)]
            self.expect(cell["text"], found, f"{head!r} of {' '.join(sorted(words))}")

    def own(self, words):
        """Of each answer the rows that have most of a shown row's words."""
        best = {}
        for name, rows in self.rows.items():
            scored = [(len(words & texts(row)), row) for row in rows]
            most = max((score for score, _ in scored), default=0)
            if most or len(rows) == 1:
                best[name] = [row for score, row in scored if score == most]
        return best

    def legend(self, name):
        """Beside a line's name stands the newest value of the line, or the one before where the newest may still grow."""
        if self.id == "phases":
            row = self.rows["row"][0]
            known = {part: row[f"{part}_s"] for part in ("queue", "prefill", "decode")}
            return [known.get(name, row["e2e_s"] - sum(value or 0 for value in known.values()))]
        if self.id == "tokens":
            rows = self.rows["tokens"]
            # To the microsecond: seconds since 1970 are not that exact once they are subtracted.
            gaps = sorted(round(one["time"] - before["time"], 6) for before, one in zip(rows, rows[1:]) if one["choice"] == before["choice"])
            if "gap" in name:
                return [gaps[-1] if name == "longest gap" else gaps[len(gaps) // 2]] if gaps else [None]
            return [sum((one["stall"] or "decode") == ("decode" if name == "no stall" else name) for one in rows)]
        if any(chart["kind"] == "heat" for chart in self.shown["charts"]):
            return [max((row["calls"] for rows in self.rows.values() for row in rows if row["level"] is not None), default=None)]
        lines = [series for chart in self.shown["charts"] for series in chart["hover"]["series"] if series["name"] == name]
        newest = [[value for value in reversed(line["values"]) if value is not None][:2] for line in lines]
        return [value for values in newest for value in values or [None]]

    def fact(self, fact):
        nodes = {row["host_id"] for row in self.rows["work"] if row["region"] == fact["of"] and row["no_host"] == 0}
        of_region = [row for row in self.rows["work"] if row["region"] == fact["of"] and row["no_host"] == row["no_model"] == 1]
        column = {"TTFT p99": "ttft_p99", "requests": "requests", "output": "tokens"}.get(fact["name"])
        if column == "ttft_p99":
            return [row[column] for row in of_region]
        if column:
            return [row[column] / seconds_of(row) for row in of_region]
        # What stands beside it is of five statements, those of the table below.
        name, column = {"waiting": ("engines", "waiting"), "power": ("energy", "watts"), "price": ("cost", "usd_per_hour")}[fact["name"]]
        rows = NODES[self.path][name]
        of_nodes = [row[column] for row in rows if row["region"] == fact["of"] and row[column] is not None]
        return [sum(of_nodes)] if of_nodes else [None]

    # -- charts

    def chart(self, chart):
        hover = chart["hover"]
        if chart["kind"] == "tokens":
            return self.tokens(hover)
        at = [round(x) for x in hover["x"]]
        assert at or not hover["series"], f"{self.where()}: a chart without a moment"
        for series in hover["series"]:
            found = [column for column in self.columns(series["name"], chart["kind"]) if self.is_of(column, at, series["values"])]
            assert found, f"{self.where()}: the line {series['name']!r} is none of the answers'; it says {series['values'][:5]} …"
            self.count += len([value for value in series["values"] if value is not None])
        return None

    def columns(self, name, kind):
        """Every course that an answer has, by the start of its bucket in µs; those of a name alone where rows have names."""
        for rows in self.rows.values():
            if not rows or "bucket" not in rows[0]:
                continue
            if kind == "heat":
                yield from (heat(rows, name),)
                continue
            if (self.id, name) in COURSES:
                yield COURSES[self.id, name](self)
                continue
            named = [row for row in rows if name in texts(row)]
            for column in rows[0]:
                yield {round(row["bucket"] * 1e6): row[column] for row in named or rows if row[column] is None or is_number(row[column])}

    def is_of(self, column, at, values):
        if not column or len(at) != len(values):
            return False
        starts = sorted(column)
        steps = {middle - start for middle, start in zip(at, starts)} if len(starts) == len(at) else None
        # Rows of one name may lack buckets that others have.
        half = min(steps) if steps and len(steps) == 1 else self.half(at)
        slack = 0.02 if any(self.loose.values()) else 1.1e-4
        for middle, value in zip(at, values):
            meant = column.get(middle - half)
            if (meant is None) != (value is None) or value is not None and abs(value - meant) > abs(meant) * slack + 1e-12:
                return False
        return True

    def half(self, at):
        """Half a bucket: what makes the answers' starts of the chart's middles."""
        starts = {round(row["bucket"] * 1e6) for rows in self.rows.values() for row in rows if "bucket" in row}
        halves = [step * 500_000 for step in (1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)]
        return next((half for half in halves if all(middle - half in starts for middle in at)), 0)

    def tokens(self, hover):
        rows = self.rows["tokens"]
        assert len(hover["x"]) == len(rows), f"{self.where()}: {len(rows)} tokens are drawn as {len(hover['x'])}"
        gap, batch = (series["values"] for series in hover["series"])
        order = sorted(range(len(rows)), key=lambda index: rows[index]["time"])
        starts = {round(rows[index]["time"] - x, 5) for index, x in zip(order, hover["x"])}
        assert len(starts) <= 2, f"{self.where()}: tokens do not stand where they left: {starts}"
        for place, index in enumerate(order):
            before = rows[index - 1] if index and rows[index - 1]["choice"] == rows[index]["choice"] else None
            if before:
                meant = rows[index]["time"] - before["time"]
                assert abs(gap[place] - meant) <= meant * 1.1e-4 + 2e-6, f"{self.where()}: gap {gap[place]} of {meant} s"
            assert batch[place] == rows[index]["batch_size"], f"{self.where()}: batch {batch[place]}"
            self.count += 2

    def below(self, table):
        """The table below a chart repeats its numbers: each is one of those that the pointer reads."""
        read = [value for chart in self.shown["charts"] for series in chart["hover"]["series"] for value in series["values"]]
        if self.id == "tokens":
            for row in table["rows"]:
                index, choice = (int(row["cells"][place]["text"]) for place in (0, 1))
                meant = next(one for one in self.rows["tokens"] if (one["index"], one["choice"]) == (index, choice))
                for place, column, scale in ((4, "count", 1), (5, "batch_size", 1), (6, "device_us", 1e-6)):
                    number = meant[column]
                    self.expect(row["cells"][place]["text"], [None if number is None else number * scale], column)
            return
        for row in table["rows"]:
            for cell in row["cells"]:
                if cell["num"]:
                    self.expect(cell["text"], read + [None], "a number below the chart")


def texts(row):
    """The words of an answer's row, with instants as lists show them."""
    words = {value for value in row.values() if isinstance(value, str)}
    instants = [value for value in row.values() if isinstance(value, Instant)]
    return words | {text for value in instants for text in (value.stamp(), value.stamp()[:11], value.day())}


def seconds_of(row):
    """The stretch that rates of a node are about: from its first minute on."""
    return max(END_S - row["since"], 1.0)


END_S = datetime.fromisoformat(TO).timestamp()
# Rows of the statements behind a page's table of nodes, by path.
NODES = {}


def heat(rows, name):
    """What the pointer reads off a heat map."""
    buckets = {}
    for row in rows:
        if row["level"] is not None:
            buckets.setdefault(round(row["bucket"] * 1e6), []).append(row)
    of = {
        "count": lambda cells: sum(cell["calls"] for cell in cells),
        "at most": lambda cells: 2 ** ((max(cell["level"] for cell in cells) + 1) / 4),
        "at least": lambda cells: 2 ** (min(cell["level"] for cell in cells) / 4),
    }[name]
    return {at: of(cells) for at, cells in buckets.items()}


# ---- figures that are made of several


def column(name, column_name, by=lambda number, row: number):
    """One column of one statement's own rows."""

    def found(_, own, *__):
        return [None if row[column_name] is None else by(row[column_name], row) for row in own.get(name, [])]

    return found


def parts(panel, own, row, head):
    """Cost by one dimension: parts of a name are added up."""
    every = panel.rows[next(iter(panel.rows))]
    shown = row["cells"][0]["text"]
    nameless = "__unattributed__" if "by=key" in panel.path else None
    name = nameless if shown.startswith("no ") else shown
    if shown.startswith("nobody"):
        rows = [one for one in every if one["part"] != "requests"]
    elif "by=tenant" in panel.path:
        rows = [one for one in every if one["name"] == name and one["part"] == "requests"]
    else:
        rows = [one for one in every if one["name"] == name]
    cost, tokens = added(rows, "cost_usd"), added(rows, "output_tokens")
    whole = added(every, "cost_usd")
    return {
        "cost": [cost],
        "of all": [cost / whole] if cost is not None and whole else [None],
        "output tokens": [tokens or None],
        "per M output": [cost / tokens * 1e6 if cost is not None and tokens else None],
    }[head]


def added(rows, name):
    known = [row[name] for row in rows if row[name] is not None]
    return sum(known) if known else None


def ranked(panel, own, row, head):
    """What is different: shares of those that are meant and of all."""
    rows = panel.rows["different"]
    dimension, value = row["cells"][0]["text"], row["cells"][1]["text"]
    name = {"node": "host_id", "hardware": "host_type", "version": "service_version"}.get(dimension, dimension)
    of = [one for one in rows if one[f"in_{name}"] == 0]
    meant = next(one for one in of if (one[name] or "unknown") == value)
    calls, bad = added(of, "calls"), added(of, "bad")
    of_bad, of_all = meant["bad"] / bad, meant["calls"] / calls
    if head == "lift":
        return [of_bad / of_all]
    if head == "of all calls":
        return [of_all]
    return [of_bad if head.startswith("of those") else meant["bad"] / meant["calls"]]


MEASURES = {"queue": "queue_s", "prefill": "prefill_s", "decode": "decode_s", "TPOT": "tpot_s", "longest gap": "itl_max_s", "end to end": "e2e_s",
            "input tokens": "input_tokens", "output tokens": "output_tokens"}


def measured(panel, own, row, head):
    name = MEASURES[row["cells"][0]["text"]]
    of = {one["meant"]: one[name] for one in panel.rows["measures"]}
    return [of[1] / of[0] if head == "times" else of[1] if head.startswith("those") else of[0]]


def objective(panel, own, row, head):
    if head != "budget left":
        name = {"5 min": "burn_5m", "30 min": "burn_30m", "1 h": "burn_1h", "6 h": "burn_6h"}[head]
        minutes = {"5 min": 5, "30 min": 30, "1 h": 60, "6 h": 360}[head]
        rows = [one for one in panel.rows["burn"] if one["slo"] == row["cells"][1]["text"]]
        return [one[name] if END_S - one["time"] <= minutes * 60 else None for one in rows]
    name = row["cells"][1]["text"]
    counted = next((one for one in panel.rows["budget"] if one["slo"] == name), None)
    terms = next(one for one in panel.rows["terms"] if name in texts(one))
    return [left(counted["calls"], counted["good"], terms["objective"])] if counted and counted["calls"] else [None]


def left(calls, good, share):
    return 1 - (calls - good) / ((1 - share) * calls)


def per_second(name):
    return column("work", name, lambda number, row: number / seconds_of(row))


def beside(panel, own, row, head):
    """This node and its peers."""
    name = {"calls": "calls", "TTFT p50": "p50", "TTFT p99": "p99", "queue, mean": "queue_s", "queue p99": "queue_p99", "prefill, mean": "prefill_s",
            "prefill p99": "prefill_p99", "TPOT, mean": "tpot_s", "input tokens a call": "input_tokens", "failed": "failed"}[head]
    whose = "this" if row["cells"][0]["text"] == "this node" else "peers"
    return [one[name] for one in panel.rows["peers"] if one["whose"] == whose]


def lane(panel, own, row, head):
    """Spans of a trace: how long each took, and the share of the wait for the first token."""
    spans, request = panel.rows["spans"], REQUEST["row"]
    start = min(one["time_unix_nano"] for one in spans)
    name = row["cells"][0]["text"]
    mine = next(one for one in spans if one["span_id"] == request["span_id"])
    wait = (mine["time_unix_nano"] - start) / 1e9 + (request["ttft_s"] or 0)
    found = []
    for one in spans:
        if one["name"] == name:
            begin, end = (one["time_unix_nano"] - start) / 1e9, (one["end_unix_nano"] - start) / 1e9
            found.append(end - begin if head == "duration" else max(min(end, wait) - begin, 0) / wait)
    return found


def hosts_of(panel, own, row, head):
    """As many hosts as told their energy in the region, whatever types they are of; in the demo they all serve one model."""
    region = row["cells"][0]["text"]
    statement = f"SELECT count(DISTINCT host_id) FROM host_energy WHERE region = '{region}' AND time >= '{FROM}' AND time < '{TO}'"
    request = urllib.request.Request(BASE + "/api/v1/sql", statement.encode(), {"content-type": "text/plain"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
        return json.load(reply)["rows"][0]


# The row of the request whose page is looked at.
REQUEST = {}

DERIVED = {
    ("pivot", None): parts,
    ("different", None): ranked,
    ("measures", None): measured,
    ("objectives", None): objective,
    ("nodes", "req/s"): per_second("requests"),
    ("nodes", "out tok/s"): per_second("tokens"),
    ("peers", None): beside,
    ("trace", None): lane,
    ("efficiency", "hosts"): hosts_of,
    ("efficiency", "joules per token"): column("efficiency", "tokens_per_joule", lambda ratio, _: 1 / ratio if ratio else None),
}
DERIVED |= {
    ("cost", "device time"): column("cost", "device_us", lambda us, _: us / 1e6),
    ("cost", "per million output tokens"): column("cost", "cost_usd", lambda usd, row: usd / row["output_tokens"] * 1e6 if row["output_tokens"] else None),
}
# What stands to the right like a number, and is none.
WORDS = {("cost", "price"), ("cost", "method"), ("energy", "boundary"), ("energy", "method"), ("energy", "watts")}
TOTALS = {("pivot", "cost"): lambda panel, *_: [added(panel.rows[next(iter(panel.rows))], "cost_usd")]}


def budget(panel):
    """What is left after each bucket, from the beginning of the objective's window on."""
    before, share = panel.rows["budget before"][0], OBJECTIVE["objective"]
    calls, good, course = before["calls"] or 0, before["good"] or 0, {}
    for row in panel.rows["burn"]:
        calls, good = calls + row["calls"], good + row["good"]
        course[round(row["bucket"] * 1e6)] = max(left(calls, good, share), 0)
    return course


# The terms of the objective whose page is looked at.
OBJECTIVE = {}
COURSES = {("budget", "budget left"): budget}


# ---- tiles


def first(name):
    return lambda rows: [next((row[name] for row in rows if row.get("total", 1) == 1), None)]


def ttft(share):
    """At the place nearest to the engine that measured any call."""

    def found(rows):
        row = next(row for row in rows if row["total"] == 1)
        place = next((place for place in ("server", "gateway", "client") if row[f"ttft_calls_{place}"]), "server")
        return [row[f"ttft_{share}_{place}"]]

    return found


def of_this(name):
    return lambda rows: [row[name] for row in rows if row["whose"] == "this"]


def newest_bucket(rows):
    """The newest bucket that was over."""
    return [row["tokens_per_s"] for row in rows]


def spent(parts):
    return lambda rows: [sum(rows[0][part] for part in parts) / rows[0]["cost_usd"] if rows[0]["cost_usd"] else None]


TILES = {
    "/": {
        "TTFT p50": ttft("p50"), "TTFT p99": ttft("p99"), "Output tokens": first("output_tokens_per_s"), "Requests": first("requests_per_s"),
        "Utilization": first("utilization"), "Tokens per joule": first("tokens_per_joule"), "Cost per hour": first("usd_per_hour"),
        "Per million output tokens": first("usd_per_million"),
    },
    "/node": {"TTFT p99": of_this("p99"), "Mean queue": of_this("queue_s"), "Output tokens": newest_bucket, "Price": first("usd_per_hour")},
    "/cost": {
        "Cost of this range": first("cost_usd"), "Run rate": first("usd_per_hour"), "Used by calls": spent(["requests"]),
        "Padding and idle": spent(["padding", "idle"]),
    },
    "/power": {
        "Tokens per joule": first("tokens_per_joule"), "Joules per output token": lambda rows: [1 / ratio for ratio in first("tokens_per_joule")(rows)],
        "Power": first("power_w"), "Energy": first("joules"),
    },
}


def tiles_are_right(path, shown):
    known = TILES.get("/node" if path.startswith("/node/") else path.split("?")[0], {})
    if "idle=hide" in path:
        known = known | {"Cost of this range": first("requests")}
    assert {tile["label"] for tile in shown} <= set(known), f"{path} has other tiles: {[tile['label'] for tile in shown]}"
    for tile in shown:
        statement, versions = linked(tile["link"])
        candidates = known[tile["label"]](answer(statement, versions))
        if tile["text"].strip() == UNKNOWN:
            assert None in candidates, f"{path}: {tile['label']} is not known, though the SQL says {candidates}"
            continue
        written = Written(tile["text"])
        slack = 0.02 if LOOSE in statement else 0
        near = [number for number in candidates if number is not None]
        assert any(written.is_of(number) or abs(written.value - number) <= slack * number for number in near), (
            f"{path}: {tile['label']} is shown as {tile['text']}, the SQL says {candidates}")
    return len(shown)


# ---- pages

# What is of now and not of the range: its statements have no versions and no times. And pages that may have nothing to show.
EMPTY = ("/alerts",)
OF_NOW = {("/settings", "collectors"), ("/settings", "tables"), ("/settings", "rollups"), ("/settings", "keyboard"), ("/cost", "budgets"), ("/cost", "months")}


def opened(driver, path):
    """A page that stands still, once all its answers are there."""
    range_ = urllib.parse.urlencode({"from": FROM, "to": TO, "live": "off"})
    until = time.monotonic() + PATIENCE_S
    while True:
        driver.get(f"{BASE}{path}{'&' if '?' in path else '?'}{range_}")
        shown = driver.execute_script(READ)
        if not shown["failed"] and not shown["pending"] or time.monotonic() > until:
            assert not shown["failed"], f"{path}: {shown['failed']}"
            return shown
        time.sleep(1)


def equal(driver, path):
    shown = opened(driver, path)
    place = path.split("?")[0]
    panels = [panel for panel in shown["panels"] if (place, panel["id"]) not in OF_NOW]
    for panel in panels:
        shows = panel["tables"] or panel["charts"] or panel["facts"]
        assert panel["statements"] or not shows, f"{path}: panel {panel['id']} has no statement"
    panels = [Panel(path, panel) for panel in panels]
    NODES[path] = next((panel.rows for panel in panels if panel.id == "nodes"), {})
    if place.startswith("/request/"):
        REQUEST["row"] = panels[0].rows["row"][0]
    count = sum(panel.check() for panel in panels) + tiles_are_right(path, shown["tiles"])
    assert count or place in EMPTY, f"{path} shows no number"
    print("holds:", count, "numbers of", place, "are those of its SQL")


def says_what_nodes_said(driver):
    """The values of an allocation key are those that the demo's nodes send with all they send, and each priced one costs something."""
    shown = opened(driver, "/cost?by=key:k8s.namespace.name")
    table = next(panel for panel in shown["panels"] if panel["id"] == "pivot")["tables"][0]
    costs = {row["cells"][0]["text"]: row["cells"][1]["text"] for row in table["rows"] if not row["total"]}
    assert {"assistant", "search", "lab"} <= set(costs), f"values of the key: {costs}"
    assert costs["lab"] == UNKNOWN != costs["assistant"], f"the one without a price alone has no cost: {costs}"
    print("holds: a key's values are what nodes said, and one without a price costs nothing that is known")


def fetched(link):
    with urllib.request.urlopen(BASE + link, timeout=PATIENCE_S) as reply:
        return reply.read()


def files_hold_the_same(driver, path, panel):
    """What a panel offers as CSV and as Parquet is the answer of its statement."""
    opened(driver, path)
    shown = driver.execute_script(f"return document.querySelector('#{panel} details.sql li pre').textContent")
    links = driver.execute_script(f"return [...document.querySelectorAll('#{panel} details.sql li:first-child a[download]')].map(a => a.getAttribute('href'))")
    rows = answer(*copied(shown))
    as_csv, as_parquet = (next(link for link in links if part in link) for part in ("/sql.csv", "format=parquet"))
    lines = list(csv.DictReader(io.StringIO(fetched(as_csv).decode(), newline="")))
    table = pyarrow.parquet.read_table(io.BytesIO(fetched(as_parquet))).to_pylist()
    assert len(rows) == len(lines) == len(table) > 0, (len(rows), len(lines), len(table))
    for row, line, record in zip(rows, lines, table):
        for name, value in row.items():
            if not is_number(value) and not isinstance(value, str):
                continue
            of_csv, of_parquet = line[name].lstrip("'") if isinstance(value, str) else float(line[name]), record[name]
            same = of_csv == value == of_parquet if isinstance(value, str) else math.isclose(of_csv, value) and math.isclose(float(of_parquet), value)
            assert same, f"{path}, panel {panel}: {name} is {value}, as CSV {of_csv}, as Parquet {of_parquet}"
    print("holds: CSV and Parquet of", path, "are the answer")


def alike(some, others):
    """Whether paths have the same strokes, and none of them ends further off than 2 % of a chart."""
    strokes = [(re.findall("[A-Za-z]", one), [float(at) for at in re.findall(r"-?[0-9.]+", one)]) for one in (*some, *others)]
    pairs = list(zip(strokes[: len(some)], strokes[len(some):]))
    return len(some) == len(others) and all(
        of == like and len(at) == len(to) and all(abs(a - b) <= 4 for a, b in zip(at, to)) for (of, at), (like, to) in pairs)


CELL = re.compile(r"m(-?[0-9.]+)[ ,]?(-?[0-9.]+)(h[^m]*z)")


def drawing(path):
    """A path's strokes; the cells of a heat map as places in order, since their rows come in any."""
    cells = CELL.findall(path)
    if not cells or "".join(CELL.sub("", path).split()):
        return path
    x, y, places = 0, 0, []
    for dx, dy, shape in cells:
        x, y = x + float(dx), y + float(dy)
        places.append((round(x, 1), round(y, 1), shape))
    return sorted(places)


def images_are_the_charts(driver, path):
    """The image of a chart is the drawing of the page, line for line; lines of t-digests, which differ from run to run, nearly."""
    opened(driver, path)
    charts = driver.execute_script(
        "return [...document.querySelectorAll('.figure svg.chart')].map(svg => [[...svg.querySelectorAll('path')].map(p => p.getAttribute('d')),"
        " svg.closest('.figure').nextElementSibling.querySelector('.save a').getAttribute('href'),"
        " (e => { while (!e.querySelector('details.sql')) e = e.parentElement; return e.querySelector('details.sql').textContent })(svg)])")
    assert charts, f"{path} has no chart"
    for drawn, link, statements in charts:
        image = xml.etree.ElementTree.fromstring(fetched(link))
        paths = [path.get("d") for path in image.iter("{http://www.w3.org/2000/svg}path")]
        same = [drawing(path) for path in paths] == [drawing(path) for path in drawn] or LOOSE in statements and alike(paths, drawn)
        assert drawn and same, f"{link} draws something else:\n{paths}\n{drawn}"
    print("holds:", len(charts), "charts of", path, "are images of their own")


def link(driver, path, selector):
    opened(driver, path)
    links = driver.execute_script(f"return [...document.querySelectorAll({selector!r})].map(link => link.getAttribute('href'))")
    assert links, f"{path} has no {selector}"
    return links[0].split("?")[0]


def main():
    driver = browser()
    try:
        objective = link(driver, "/slo", "#objectives tbody tr a")
        shown = opened(driver, "/slo")
        OBJECTIVE.update(next(row for row in Panel("/slo", shown["panels"][0]).rows["terms"] if row["name"] == objective.split("/")[-1]))
        node = link(driver, "/fleet", "#nodes tbody tr a")
        request = link(driver, "/requests?status=ok", "#requests tbody tr a")
        # Rows of an allocation key are asked for under the policy for idle time.
        by_key = [f"/cost?by=key:k8s.namespace.name&idle={policy}" for policy in ("show", "share", "hide")]
        for path in ("/", "/slo", objective, f"{objective}?box_low=0.5", "/latency", "/latency?metric=itl&by=region", "/latency?metric=e2e&at=gateway&by=model", "/fleet",
                     "/region/eu-west-1", node, "/requests", request, "/cost", "/cost?by=tenant", *by_key,
                     "/cost?by=key:deployment.environment.name", "/power", "/alerts", "/logs", "/settings"):
            equal(driver, path)
        says_what_nodes_said(driver)
        files_hold_the_same(driver, "/latency", "groups")
        for path in ("/", "/latency", "/cost"):
            images_are_the_charts(driver, path)
        print("holds: every number is that of its SQL")
    finally:
        driver.quit()


main()
