"""Measures the dashboard in Chromium.

usage: python -c SCRIPT URL OTLP_HTTP_URL RUNS TOKENS

Sends a small fleet and one call of TOKENS tokens, waits until they can be asked for, and prints one line of JSON.
"""

import json
import os
import signal
import statistics
import sys
import tempfile
import time
import urllib.request

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

BASE, OTLP, RUNS, TOKENS = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
PATIENCE_S = 120
CHARTS, MOVES = 24, 240
TRACE, SPAN = "f" * 31 + "1", "f" * 15 + "1"
REGIONS = ("eu-west-1", "us-east-1", "us-west-2")

# Runs before a page's own scripts. Interactive is when the islands have started: they mark the root then.
WATCH = """
window.seen = {shift: 0, lcp: 0, ready: 0};
new PerformanceObserver(list => { for (const e of list.getEntries()) if (!e.hadRecentInput) seen.shift += e.value; })
  .observe({type: 'layout-shift', buffered: true});
new PerformanceObserver(list => { for (const e of list.getEntries()) seen.lcp = e.startTime; })
  .observe({type: 'largest-contentful-paint', buffered: true});
new MutationObserver((_, observer) => {
  if (document.documentElement && document.documentElement.classList.contains('scripted')) { seen.ready = performance.now(); observer.disconnect(); }
}).observe(document, {subtree: true, childList: true, attributes: true, attributeFilter: ['class']});
"""

# One pointer move over a chart of many: what handling it takes, style and layout among it.
HOVER = """
const [count, moves, done] = [arguments[0], arguments[1], arguments[2]];
const place = document.querySelector('svg.chart').closest('.figure');
for (let n = document.querySelectorAll('svg.chart').length; n < count; n++) place.parentNode.append(place.cloneNode(true));
const charts = [...document.querySelectorAll('svg.chart')], took = [];
charts[0].scrollIntoView({block: 'center'});
const frame = charts[0].getBoundingClientRect();
let move = 0;
const step = () => {
  const x = frame.left + frame.width * ((move * 37) % moves) / moves, start = performance.now();
  charts[0].dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: x, clientY: frame.top + 60, pointerType: 'mouse'}));
  document.body.getBoundingClientRect();
  took.push(performance.now() - start);
  if (++move < moves) requestAnimationFrame(step); else done({took, charts: charts.length, on: !!document.querySelector('#tip.on')});
};
requestAnimationFrame(step);
"""


def attribute(key, value):
    kind = "stringValue" if isinstance(value, str) else "doubleValue" if isinstance(value, float) else "intValue"
    return {"key": key, "value": {kind: str(value) if kind == "intValue" else value}}


def send(path, body):
    request = urllib.request.Request(f"{OTLP}/v1/{path}", json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        answer.read()


def spans(region, rows):
    host = f"{region}-0"
    resource = [("service.name", "llm"), ("service.instance.id", host), ("host.id", host), ("host.type", "inf2.48xlarge"), ("cloud.region", region)]
    resource = {"attributes": [attribute(*pair) for pair in resource]}
    send("traces", {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": rows}]}]})


def call(trace, span, start_ns, end_ns, tokens, ttft_s):
    about = [("gen_ai.request.model", "llama-3-70b"), ("gen_ai.usage.input_tokens", 512), ("gen_ai.usage.output_tokens", tokens),
             ("gen_ai.latency.time_to_first_token", ttft_s), ("gen_ai.latency.time_in_queue", ttft_s / 4)]
    return {"traceId": trace, "spanId": span, "name": "llm_request", "kind": 2, "startTimeUnixNano": str(start_ns), "endTimeUnixNano": str(end_ns),
            "attributes": [attribute(*pair) for pair in about]}


def fill():
    """Fifteen minutes of calls in three regions, and one call of many tokens that ended a minute ago."""
    now = time.time_ns()
    for place, region in enumerate(REGIONS):
        rows = [call(f"{place + 1:02x}{at:030x}", f"{place + 1:02x}{at:014x}", now - at * 10**9, now - at * 10**9 + 2 * 10**9, 140, 0.1 + at % 7 / 20)
                for at in range(3, 900)]
        spans(region, rows)
    gap = 20_000_000
    start = now - 60 * 10**9 - (TOKENS + 10) * gap
    spans("eu-west-1", [call(TRACE, SPAN, start, start + (TOKENS + 10) * gap, TOKENS, 10 * gap / 1e9)])
    for first in range(0, TOKENS, 2000):
        rows = []
        for index in range(first, min(first + 2000, TOKENS)):
            at = start + (index + 10) * gap
            rows.append({"traceId": TRACE, "spanId": f"aa{index:014x}", "parentSpanId": SPAN, "name": "token", "kind": 1,
                         "startTimeUnixNano": str(at - gap), "endTimeUnixNano": str(at),
                         "attributes": [attribute("gen_ai.request.model", "llama-3-70b"), attribute("tokenwatt.token.index", index),
                                        attribute("tokenwatt.token.batch", 8 + index % 5)]})
        spans("eu-west-1", rows)
    until(f"SELECT sum(count) FROM tokens WHERE trace_id = '{TRACE}'", TOKENS)
    until("SELECT count(*) FROM requests", 3 * 897 + 1)
    return start // 10**6


def until(sql, wanted):
    end = time.monotonic() + PATIENCE_S
    while True:
        request = urllib.request.Request(BASE + "/api/v1/sql", sql.encode(), {"content-type": "text/plain"})
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            found = json.load(answer)["rows"][0][0] or 0
        if float(found) >= wanted:
            return
        if time.monotonic() > end:
            raise SystemExit(f"{sql} stays at {found} of {wanted}")
        time.sleep(0.2)


def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-dev-shm-usage".split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tempfile.mkdtemp()}")
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
    driver.set_script_timeout(PATIENCE_S)
    driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
    return driver


def opened(driver, path):
    """A page, once its islands have started and all its panels are there: when that was, when the largest paint was, how far it moved."""
    driver.get(BASE + path)
    WebDriverWait(driver, PATIENCE_S).until(lambda _: driver.execute_script("return window.seen.ready > 0 && window.seen.lcp > 0 && !document.querySelector('[data-rest]')"))
    return driver.execute_script(
        "const went = performance.getEntriesByType('navigation')[0];"
        "return {...seen, first: went.responseStart, last: went.responseEnd, parsed: went.domInteractive, bytes: went.decodedBodySize}")


def steps(page):
    """Seconds that the server took for a page so far, by step, and how many pages that were: it tells on its own /metrics."""
    with urllib.request.urlopen(BASE + "/metrics", timeout=PATIENCE_S) as answer:
        lines = answer.read().decode().splitlines()
    found = {}
    for step in ("asked", "drawn"):
        of = lambda part: next((float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(
            f'tokenwatt_ui_page_seconds_{part}{{page="{page}",step="{step}"}}')), 0.0)
        found[step] = (of("sum"), of("count"))
    return found


def per_page(before, after):
    """Milliseconds a page, by step."""
    spent = {step: (after[step][0] - before[step][0], after[step][1] - before[step][1]) for step in after}
    return {step: seconds / pages * 1e3 if pages else None for step, (seconds, pages) in spent.items()}


def compressed(url):
    request = urllib.request.Request(url, headers={"accept-encoding": "br"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return len(answer.read())


def prepared():
    """Says at once what is missing."""
    for program, package in (("/usr/bin/chromium", "chromium"), ("/usr/bin/chromedriver", "chromium-driver")):
        if not os.path.exists(program):
            raise SystemExit(f"{program} is missing: install Debian's {package}")
    with urllib.request.urlopen(BASE + "/", timeout=PATIENCE_S) as answer:
        if b"/assets/web/" not in answer.read():
            raise SystemExit("the server found no web bundle of this build, so there are no islands to measure: run `cargo xtask web`, or name a "
                             "bundle with TOKENWATT__UI__BUNDLE; else it is looked for in ../web/current beside the binary")


def main():
    # Asked to end it ends the browser, too, which would stay behind it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("asked to end"))
    prepared()
    started_ms = fill()
    figures = {"runs": RUNS, "request_tokens": TOKENS}
    cold, calls = [], []
    request = f"/request/{TRACE}/{SPAN}?t={started_ms}"
    before = steps("request")
    for run in range(RUNS):
        driver = browser()
        try:
            cold.append(opened(driver, "/"))
            if run == 0:
                loaded = driver.execute_script("return [location.href, ...performance.getEntriesByType('resource').map(e => e.name)]")
                loaded = [url for url in loaded if not url.startswith("data:")]
                figures |= {"requests": len(loaded), "bytes": sum(compressed(url) for url in loaded), "chromium": driver.capabilities["browserVersion"]}
                hover = driver.execute_async_script(HOVER, CHARTS, MOVES)
                assert hover["on"], "the pointer is not followed"
                took = sorted(hover["took"])
                figures |= {"charts": hover["charts"], "hover_ms": statistics.median(took), "hover_p99_ms": took[int(len(took) * 0.99)]}
            calls.append(opened(driver, request))
            drawn = driver.execute_script("return JSON.parse(document.querySelector('svg.chart.tokens').dataset.hover).x.length")
            assert drawn > 0, "no token is drawn"
        finally:
            driver.quit()
    server = per_page(before, steps("request"))
    median = lambda rows, name: statistics.median(row[name] for row in rows)
    figures |= {
        "first_byte_ms": median(cold, "first"), "lcp_ms": median(cold, "lcp"), "lcp_worst_ms": max(row["lcp"] for row in cold),
        "interactive_ms": median(cold, "ready"), "cls": max(row["shift"] for row in cold),
        "request_asked_ms": server["asked"], "request_drawn_ms": server["drawn"], "request_html_bytes": median(calls, "bytes"),
        "request_html_bytes_brotli": compressed(BASE + request), "request_first_byte_ms": median(calls, "first"),
        "request_parsed_ms": median(calls, "parsed"), "request_interactive_ms": median(calls, "ready"),
    }
    print(json.dumps({name: round(value, 3) if isinstance(value, float) else value for name, value in figures.items()}))


main()
