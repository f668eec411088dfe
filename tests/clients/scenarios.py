"""Uses the dashboard as people do, also when things go wrong.

usage: scenarios.py URL BUNDLE QUIET HASTY BINARY
    URL     a running demo
    BUNDLE  `bundle` when the servers serve one, else `none`: then only what needs no scripts is done
    QUIET   OTLP/HTTP and dashboard of a server without data, separated by a comma; this script sends it some
    HASTY   a dashboard on the same lake as QUIET whose queries have a millisecond
    BINARY  `tokenwatt`, to start a dashboard of the demo of which some answers are held back

`TOKENWATT_BROWSER_SECONDS` is how long a live page is watched (10 s; 120 for two minutes). Prints one line per thing that held; an
assertion ends it.
"""

import http.server
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from datetime import datetime, timedelta, timezone

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from chromium import browser, complaints, has, hydrated, pages, press, text, until

BASE, BUNDLE = sys.argv[1], sys.argv[2] == "bundle"
QUIET_OTLP, QUIET = sys.argv[3].split(",")
HASTY, BINARY = sys.argv[4], sys.argv[5]
WATCHED_S = float(os.environ.get("TOKENWATT_BROWSER_SECONDS", "10"))

# Budgets of a first load, brotli: docs/performance.md.
BYTES_MOST, REQUESTS_MOST, SHIFT_MOST = 200_000, 8, 0.02
# What is looked at stays where it is, but for parts of a pixel.
MOVED_PX_MOST = 1
# Kinds of links that are followed at most, and the fields of the scope, which do not make another kind.
WAYS_MOST = 80
SCOPE = {"from", "to", "range", "time", "time.window", "live", "tz", "t", "region", "model", "tenant", "engine", "hardware"}

SHIFTS = """
window.shifts = 0;
new PerformanceObserver(list => { for (const e of list.getEntries()) if (!e.hadRecentInput) window.shifts += e.value; })
  .observe({type: 'layout-shift', buffered: true});
"""


def quiet_console(driver, where, but=()):
    said = [line for line in complaints(driver) if not any(word in line for word in but)]
    assert not said, f"the console is not empty {where}: {said}"


# ---- what a first visit costs


# What the editor adds, on its page alone.
EDITOR_MOST = 120_000


def fits_its_budget(path):
    """A cold load: requests, bytes as a browser over TLS would get them (brotli), and how much the page moves."""
    is_edited = BUNDLE and path.startswith("/sql")
    most = BYTES_MOST + EDITOR_MOST * is_edited
    driver = browser()
    try:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": SHIFTS})
        driver.get(BASE + path)
        if BUNDLE:
            hydrated(driver)
        if is_edited:
            until(driver, "the editor is there", lambda: has(driver, ".editor"))
        loaded = driver.execute_script(
            "return [location.href, ...performance.getEntriesByType('resource').map(e => e.name)].filter(u => !u.startsWith('data:'))")
        size = sum(compressed(url) for url in loaded)
        shift = driver.execute_script("return window.shifts")
        assert all(url.startswith(BASE) for url in loaded), f"{path} asks others: {loaded}"
        assert len(loaded) <= REQUESTS_MOST, f"{path} takes {len(loaded)} requests: {loaded}"
        assert size <= most, f"{path} takes {size} bytes"
        assert is_edited or not any("/editor-" in url or "/picture-" in url for url in loaded), f"{path} pays for another page: {loaded}"
        assert shift <= SHIFT_MOST, f"{path} moves by {shift}"
        print(f"holds: a first visit of {path.split('?')[0]} takes {len(loaded)} requests and {size} bytes, and moves by {shift:.3f}")
    finally:
        driver.quit()


def compressed(url):
    request = urllib.request.Request(url, headers={"accept-encoding": "br"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return len(answer.read())


# ---- live


def renews_without_moving(driver):
    """A live page takes new numbers in and leaves what is looked at, what was unfolded and the focus alone."""
    driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": SHIFTS})
    driver.get(BASE + "/")
    hydrated(driver)
    driver.execute_script("document.querySelector('#hosts details.sql').open = true; window.scrollTo(0, 320); window.shifts = 0;")
    driver.find_element(By.CSS_SELECTOR, "#ttft details.data summary").send_keys(Keys.ENTER)
    # Where it is on the screen: an unfolded statement above may take a line more, which the browser makes up for by scrolling.
    place = "return document.querySelector('#ttft details.data summary').getBoundingClientRect().top"
    state = "return [document.querySelector('#hosts details.sql').open, document.querySelector('#ttft details.data').open]"
    before, top, seen = driver.execute_script(state), driver.execute_script(place), set()
    look = lambda: seen.add(driver.execute_script("return document.getElementById('freshness').innerText"))
    end = time.monotonic() + WATCHED_S
    while time.monotonic() < end:
        look()
        time.sleep(0.5)
    until(driver, f"a live page renews itself, watched for {WATCHED_S:.0f} s", lambda: (look(), len(seen) > 2)[1])
    assert driver.execute_script(state) == before, f"the page was {before} and is {driver.execute_script(state)}"
    moved = abs(driver.execute_script(place) - top)
    assert moved <= MOVED_PX_MOST, f"what is looked at moved by {moved} px"
    shift = driver.execute_script("return window.shifts")
    assert shift <= SHIFT_MOST, f"a page that renewed itself {len(seen)} times moved by {shift}"
    press(driver, ".")
    until(driver, "a key pauses it", lambda: "live=off" in driver.current_url)
    shown = driver.find_element(By.ID, "freshness").text
    quiet_console(driver, "of a live page")
    return shown


# ---- zones


def stamps(driver):
    return [cell.text for cell in driver.find_elements(By.CSS_SELECTOR, "#requests tbody th")]


def is_told_in_two_zones(driver):
    """The same list in UTC and in another zone, whose name the URL and every link carry."""
    end = datetime.now(timezone.utc).replace(microsecond=0) - timedelta(seconds=60)
    span = f"from={(end - timedelta(minutes=5)).strftime('%Y-%m-%dT%H:%M:%SZ')}&to={end.strftime('%Y-%m-%dT%H:%M:%SZ')}"
    driver.get(f"{BASE}/requests?{span}")
    utc = stamps(driver)
    driver.get(f"{BASE}/requests?{span}&tz=Asia/Kolkata")
    local = stamps(driver)
    read = lambda stamp: datetime.strptime("2026-" + stamp, "%Y-%m-%d %H:%M:%S.%f")
    assert utc and [read(stamp) + timedelta(hours=5, minutes=30) for stamp in utc] == [read(stamp) for stamp in local], (utc[:2], local[:2])
    assert "started (Asia/Kolkata)" in text(driver)
    links = [link.get_attribute("href") for link in driver.find_elements(By.CSS_SELECTOR, ".rail .pages a, #requests tbody th a")]
    assert any("/request/" in link for link in links) and all("tz=Asia/Kolkata" in link for link in links), f"the zone is lost on the way: {links[:3]}"
    # Clocks in Ireland go back at 01:00 UTC on 25 October: two hours there are called 01:00 to 02:00.
    for from_, to, words in (("00:00", "01:00", "2026-10-25 01:00 IST – 01:00 GMT"), ("00:00", "02:00", "2026-10-25 01:00 IST – 02:00 GMT")):
        driver.get(f"{BASE}/requests?tz=Europe/Dublin&from=2026-10-25T{from_}Z&to=2026-10-25T{to}Z")
        assert words in text(driver), f"{words} is not on the page:\n{text(driver)[:600]}"
    print("holds: pages are told in UTC and in another zone, also when its clocks are put back")
    if BUNDLE:
        knows_its_own_zone(driver)


def pointed(driver, chart):
    """What the tip says over the middle of a chart. The page renews itself meanwhile, so it is looked for each time."""
    try:
        chart = driver.find_element(By.CSS_SELECTOR, chart)
        ActionChains(driver).scroll_to_element(chart).move_to_element(chart).move_by_offset(2, 0).perform()
        return driver.find_element(By.ID, "tip").text
    except StaleElementReferenceException:
        return ""


def knows_its_own_zone(driver):
    driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "America/New_York"})
    driver.get(BASE + "/")
    hydrated(driver)
    press(driver, "u")
    driver.find_element(By.CSS_SELECTOR, "a[data-zone]").click()
    until(driver, "the browser's own zone is one click away", lambda: "tz=America%2FNew_York" in driver.current_url)
    hydrated(driver)
    until(driver, "the pointer reads local time", lambda: re.search(r"\d\d:\d\d:\d\d E[DS]T", pointed(driver, "#ttft svg.chart")))
    driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ""})


# ---- the heat map


def compares_a_box(driver):
    """A box over the heat map is what the page compares with everything else."""
    driver.get(BASE + "/latency?range=15m")
    hydrated(driver)
    chart = driver.find_element(By.CSS_SELECTOR, "#heat svg.chart")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", chart)
    drag = ActionChains(driver).move_to_element_with_offset(chart, -80, -60).click_and_hold()
    drag.move_by_offset(160, 100).release().perform()
    until(driver, "a drag over the heat map chooses its calls", lambda: "box_low=" in driver.current_url and has(driver, "#heat .chosen"))
    assert "calls between" in driver.find_element(By.ID, "different-title").text
    hydrated(driver)
    driver.back()
    until(driver, "going back forgets them", lambda: "box_low=" not in driver.current_url and has(driver, "#heat svg.chart"))
    driver.forward()
    until(driver, "going forward knows them again", lambda: has(driver, "#heat .chosen"))
    quiet_console(driver, "of the heat map")


def compares_a_box_of_an_objective(driver):
    """The same on an objective: the box, not what was not good, is then compared with everything else."""
    driver.get(BASE + "/slo?range=15m")
    objectives = [row.get_attribute("href") for row in driver.find_elements(By.CSS_SELECTOR, "#objectives tbody a")]
    for objective in objectives:
        driver.get(objective)
        if has(driver, "#heat svg.chart"):
            break
    hydrated(driver)
    assert "not good" in driver.find_element(By.CSS_SELECTOR, "#different .note").text
    chart = driver.find_element(By.CSS_SELECTOR, "#heat svg.chart")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", chart)
    drag = ActionChains(driver).move_to_element_with_offset(chart, -80, -60).click_and_hold()
    drag.move_by_offset(160, 100).release().perform()
    until(driver, "a drag over an objective's heat map chooses its calls", lambda: "box_low=" in driver.current_url and has(driver, "#heat .chosen"))
    assert "calls between" in driver.find_element(By.ID, "different-title").text
    driver.find_element(By.LINK_TEXT, "Back to the calls that were not good").click()
    until(driver, "and a link goes back to the calls that were not good", lambda: "box_low=" not in driver.current_url and not has(driver, "#heat .chosen"))
    quiet_console(driver, "of an objective's heat map")


# ---- keys, back and forward


def is_used_by_keys_alone(driver):
    """From an objective to the tokens of a call without a mouse."""
    driver.get(BASE + "/")
    hydrated(driver)
    press(driver, Keys.TAB)
    assert driver.switch_to.active_element.get_attribute("class") == "skip", "the first stop is not the way past the rail"
    press(driver, "g", "s")
    until(driver, "keys lead to objectives", lambda: "/slo" in driver.current_url)
    # The first row of an objective leads to what its calls have in common, or to one of them where nothing sets them apart.
    for what, there in (("an objective", ("/slo/",)), ("its calls", ("/node/", "/request/", "?"))):
        hydrated(driver)
        until(driver, "rows can be gone along", lambda: has(driver, "main table.list tbody a[href]"))
        before = driver.current_url
        press(driver, "j", Keys.ENTER)
        until(driver, f"keys lead to {what}", lambda: driver.current_url != before and any(part in driver.current_url for part in there))
    driver.get(BASE + "/")
    hydrated(driver)
    for _ in range(60):
        press(driver, Keys.TAB)
        if "chart" in (driver.switch_to.active_element.get_attribute("class") or "").split():
            break
    press(driver, Keys.ARROW_RIGHT)
    until(driver, "arrow keys read a chart", lambda: has(driver, "#tip.on"))
    press(driver, Keys.ESCAPE)
    until(driver, "and Escape lets go of it", lambda: not has(driver, "#tip.on"))
    quiet_console(driver, "of keys")


def goes_back_and_forward(driver):
    """Each step is one entry of the history, and says all that the page showed."""
    driver.get(BASE + "/latency?region=eu-west-1")
    driver.find_element(By.LINK_TEXT, "1h").click()
    driver.find_element(By.LINK_TEXT, "ITL").click()
    last = driver.current_url
    assert "range=1h" in last and "metric=itl" in last and "region=eu-west-1" in last, last
    driver.back()
    assert "metric" not in driver.current_url and "range=1h" in driver.current_url, driver.current_url
    driver.back()
    assert "range" not in driver.current_url and "region=eu-west-1" in driver.current_url, driver.current_url
    assert driver.find_element(By.CSS_SELECTOR, "select[name=region]").get_property("value") == "eu-west-1"
    driver.forward()
    driver.forward()
    assert driver.current_url == last
    print("holds: back and forward, with all that was shown")


# ---- every way on


def shape(link):
    """What kind of page a link leads to: its path without names, and the names of its own fields, not those of the scope."""
    parts = urllib.parse.urlsplit(link)
    first, *more = parts.path.strip("/").split("/")
    return "/".join([first, *("*" for _ in more)]), tuple(sorted(set(urllib.parse.parse_qs(parts.query)) - SCOPE))


def ways_on(driver, path):
    driver.get(BASE + path)
    links = driver.execute_script("return [...document.querySelectorAll('main a[href^=\"/\"], .trail a[href], .scope a[href], .rail .pages a')]"
                                  ".filter(a => !a.hasAttribute('download')).map(a => a.getAttribute('href'))")
    return [link for link in links if not link.startswith(("/sql.csv", "/chart.svg", "/api/", "/metrics", "/assets/"))]


def leads_somewhere_everywhere(driver):
    """Every kind of link of every page, and of the pages behind them, leads to a page that is there and says nothing about failure."""
    found, known = list(pages(driver, BASE)), {}
    while found and len(known) < WAYS_MOST:
        path = found.pop(0)
        if shape(path) in known:
            continue
        known[shape(path)] = path
        # The links of a page are read on the page itself, so that it is opened once.
        links = ways_on(driver, path)
        seen = text(driver)
        assert driver.find_elements(By.CSS_SELECTOR, "main h2, main p, main table, main form") and has(driver, "h1"), f"{path} is empty"
        assert "There is no page" not in seen and "is not in the tables" not in seen, f"{path} leads nowhere:\n{seen[:600]}"
        found += [link for link in links if shape(link) not in known]
    kinds = {path for path, _ in known}
    for kind in ("slo/*", "region/*", "node/*", "request/*/*", "latency", "requests", "cost", "power", "fleet", "logs", "sql"):
        assert kind in kinds, f"no way leads to {kind}: {sorted(kinds)}"
    quiet_console(driver, "of drill-downs")
    print(f"holds: {len(known)} kinds of links lead to pages that are there")


# ---- whose name leads here


def is_not_told_to_a_name_that_leads_here():
    """A page of another site whose name leads to this machine is told nothing: it would be taken for the dashboard's own."""
    driver = browser(flags=["--host-resolver-rules=MAP evil.example 127.0.0.1"])
    try:
        port = urllib.parse.urlsplit(QUIET).port
        for path in ("/", "/sql?q=SELECT+4711", "/api/v1/sql?q=SELECT+4711", "/assets/icon.svg", "/metrics"):
            driver.get(f"http://evil.example:{port}{path}")
            assert "asked as `evil.example`" in text(driver) and not has(driver, ".rail"), f"{path}:\n{text(driver)[:300]}"
        asked = "const done = arguments[0]; fetch('/api/v1/sql', {method: 'POST', headers: {'content-type': 'text/plain'}, body: 'SELECT 4711'})"
        status = driver.execute_async_script(asked + ".then(answer => done(answer.status), error => done(String(error)))")
        assert status == 403, f"a page of that name was answered with {status}"
    finally:
        driver.quit()
    print("holds: a page of another site whose name leads here is told nothing")


# ---- when things go wrong


# What a browser says by itself of a file that did not come; everything else is ours, and an error is none of ours.
NOT_COME = ("net::ERR_BLOCKED_BY_CLIENT",)


def blocked(driver, *urls):
    driver.execute_cdp_cmd("Network.enable", {})
    driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": list(urls)})


def does_without_wasm(driver):
    """WebAssembly, or the script that starts it, does not come: blocked by a proxy, or a newer version is being put in its place."""
    for what in ("*.wasm", "*/ui-*.js"):
        blocked(driver, what)
        for path, words in (("/", "Regions"), ("/latency", "Who is slow"), ("/requests?region=eu-west-1", "longest gap"), ("/sql?q=SELECT+1+AS+one", "served by")):
            driver.get(BASE + path)
            assert words in text(driver), f"{path} without {what}:\n{text(driver)[:600]}"
        until(driver, f"the editor does not wait for {what}", lambda: has(driver, ".editor"))
        driver.get(BASE + "/?range=1h")
        driver.find_element(By.CSS_SELECTOR, ".rail a[href^='/fleet']").click()
        assert "/fleet?range=1h" in driver.current_url
        assert not has(driver, "html.scripted"), f"{what} was not blocked"
        told = [entry["message"] for entry in driver.get_log("browser")]
        assert any("does without its islands" in line for line in told), f"nobody is told that {what} is missing: {told}"
        strange = [line for line in told if "does without its islands" not in line and not any(word in line for word in (*NOT_COME, "preload"))]
        assert not strange, f"the console says more without {what}: {strange}"
    # What a page without islands does instead: it is loaded again, as without scripts.
    driver.get(BASE + "/?range=5m")
    driver.execute_script("document.body.dataset.before = ''")
    until(driver, "a live page without islands is loaded again", lambda: not has(driver, "body[data-before]"))
    blocked(driver)
    complaints(driver)
    print("holds: pages are read and used while WebAssembly is blocked")


def does_without_the_editor(driver):
    """The editor's script does not come: the text area stays, and says why."""
    blocked(driver, "*/editor-*.js")
    driver.get(BASE + "/sql?q=SELECT+9+AS+nine")
    hydrated(driver)
    until(driver, "a page without its editor says so", lambda: "The editor did not load" in text(driver))
    box = driver.find_element(By.ID, "q")
    assert box.is_displayed() and not has(driver, ".editor"), "without its script there is no text area"
    press(driver, "e")
    assert driver.switch_to.active_element == box
    box.send_keys(Keys.CONTROL, Keys.END)
    box.send_keys(", 10 AS ten")
    driver.find_element(By.CSS_SELECTOR, ".query button.main").click()
    until(driver, "and a statement is typed and run all the same", lambda: "ten" in driver.current_url and "served by" in text(driver))
    told = [entry["message"] for entry in driver.get_log("browser")]
    assert any("editor did not load" in line for line in told), told
    strange = [line for line in told if "editor did not load" not in line and not any(word in line for word in NOT_COME)]
    assert not strange, f"the console says more without the editor: {strange}"
    blocked(driver)


def says_that_nothing_came(driver):
    for path in ("/", "/slo", "/latency", "/fleet", "/region/eu-west-1", "/node/nobody", "/requests", "/cost", "/power", "/alerts", "/logs", "/settings", "/sql"):
        driver.get(QUIET + path)
        seen = text(driver)
        assert "No answer" not in seen and "NaN" not in seen, f"{path} of an empty lake:\n{seen[:800]}"
    driver.get(QUIET + "/")
    assert "Nothing has arrived yet." in text(driver) and "/v1/traces" in text(driver)
    quiet_console(driver, "of an empty lake")
    print("holds: an empty lake says where to send data")


def attribute(key, value):
    kind = "stringValue" if isinstance(value, str) else "doubleValue" if isinstance(value, float) else "intValue"
    return {"key": key, "value": {kind: str(value) if kind == "intValue" else value}}


def sent(path, body):
    request = urllib.request.Request(f"{QUIET_OTLP}/v1/{path}", json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200


def send_two_regions(now_s):
    """Fifteen minutes of a node in each of two regions; the second tells nothing any more since eight minutes, which is more than figures of the present look back."""
    for region, host, until_s in (("eu-west-1", "node-well", now_s), ("us-east-1", "node-gone", now_s - 480)):
        resource = {"attributes": [attribute("service.name", "llm"), attribute("service.instance.id", f"{host}-0"), attribute("host.id", host),
                                   attribute("host.type", "inf2.48xlarge"), attribute("cloud.region", region)]}
        times = range(int(until_s) - 900, int(until_s), 10)
        points = [{"timeUnixNano": str(at * 10**9), "asDouble": 300.0, "attributes": [attribute("hw.id", "0"), attribute("hw.type", "gpu")]} for at in times]
        sent("metrics", {"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"metrics": [
            {"name": "hw.power", "unit": "W", "gauge": {"dataPoints": points}}]}]}]})
        spans = [{"traceId": f"{at:032x}", "spanId": f"{at:016x}", "name": "llm_request", "kind": 2, "startTimeUnixNano": str(at * 10**9),
                  "endTimeUnixNano": str(at * 10**9 + 10**9), "attributes": [
                      attribute("gen_ai.request.model", "llama-3-8b"), attribute("gen_ai.usage.input_tokens", 100),
                      attribute("gen_ai.usage.output_tokens", 50), attribute("gen_ai.latency.time_to_first_token", 0.2)]} for at in times]
        sent("traces", {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]})


def calls_a_region_silent(driver):
    """A region whose nodes stopped is named as silent, with since when, and no figure of it is zero."""
    send_two_regions(time.time())

    def row(path, selector, name="us-east-1"):
        driver.get(QUIET + path)
        return next((row.text for row in driver.find_elements(By.CSS_SELECTOR, selector) if name in row.text), "")

    until(driver, "the Overview calls the region silent", lambda: "silent since" in row("/", "#regions tbody tr"))
    until(driver, "the Fleet calls its nodes silent", lambda: "All its nodes are silent since" in row("/fleet", "article.region"))
    node = row("/fleet", "#nodes tbody tr")
    assert "silent since" in node and "—" in node and not re.search(r"(^|\s)0(\s|$|\.0)", node), node
    until(driver, "the other region goes on", lambda: "req/s" in row("/fleet", "article.region", "eu-west-1"))
    well = row("/fleet", "#nodes tbody tr", "node-well")
    assert well and "silent" not in well, well
    quiet_console(driver, "of a silent region")


def says_that_it_took_too_long(driver):
    """Queries that take too long leave a page that says so, with its statements and a way to try again. They keep their places until they have
    stopped, so that some of the page's others find none."""
    said = []
    for path in ("/", "/latency", "/requests"):
        driver.get(HASTY + path)
        cards = driver.find_elements(By.CSS_SELECTOR, ".card.error")
        assert cards, f"{path}: nothing took too long:\n{text(driver)[:600]}"
        for card in cards:
            assert re.search(r"No answer \((timeout|overloaded)\) since", card.text) and "Try again" in card.text, card.text
            said.append(card.text)
            assert card.find_element(By.CSS_SELECTOR, "pre").get_attribute("textContent").startswith(("SELECT", "WITH")), card.text
        assert has(driver, ".rail") and has(driver, "h1")
    assert any("(timeout)" in words for words in said), said
    quiet_console(driver, "of queries that take too long")
    print("holds: a query that takes too long says so, and its neighbours stay")


class Held:
    """A dashboard of the demo's lake. What is asked with `part` in its statement is answered when it is let go."""

    def __init__(self, part):
        held, self.go = self, threading.Event()

        class Between(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                if part in json.loads(body)["sql"]:
                    held.go.wait(60)
                kept = {name: self.headers[name] for name in ("content-type", "accept") if name in self.headers}
                try:
                    answer = urllib.request.urlopen(urllib.request.Request(BASE + self.path, body, kept), timeout=60)
                except urllib.error.HTTPError as refusal:
                    answer = refusal
                with answer:
                    told = answer.read()
                    self.send_response(answer.status)
                    self.send_header("content-type", answer.headers["content-type"])
                    self.send_header("content-length", str(len(told)))
                    self.end_headers()
                    self.wfile.write(told)

            def log_message(self, *_):
                pass

        class Quiet(http.server.ThreadingHTTPServer):
            def handle_error(self, *_):
                """A dashboard that asks no longer, for its page is not looked at any more."""

        self.between = Quiet(("127.0.0.1", 0), Between)
        threading.Thread(target=self.between.serve_forever, daemon=True).start()
        self.home = tempfile.mkdtemp()
        self.said = open(os.path.join(self.home, "said"), "w+", encoding="utf-8")
        server = f"http://127.0.0.1:{self.between.server_address[1]}"
        command = [BINARY, "ui", "--server", server, "--http", "127.0.0.1:0", "--state", os.path.join(self.home, "state")]
        self.process = subprocess.Popen(command, stdout=self.said, stderr=subprocess.STDOUT, cwd=self.home)

    def url(self):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with open(self.said.name, encoding="utf-8") as said:
                lines = said.read().splitlines()
            if any(line.startswith("ready") for line in lines):
                return next(word.rstrip("/") for line in lines if line.startswith("dashboard") for word in line.split()[1:])
            time.sleep(0.1)
        raise AssertionError(f"no dashboard: {lines}")

    def end(self):
        self.go.set()
        self.process.terminate()
        self.process.wait(60)
        self.between.shutdown()


def comes_in_parts(driver, request):
    """A panel that takes long does not hold its page: it comes when it is there, and nothing else moves."""
    shown = lambda: driver.get(BASE + request) or has(driver, "#tokens svg.chart.tokens")
    until(driver, "the tokens of a call that has just ended have come", shown)
    held = Held("ORDER BY choice, index")
    try:
        where = held.url() + request
        driver.get_part(where)
        waits = lambda: driver.execute_script("return [...document.querySelectorAll('section:has(.pending)')].map(panel => panel.id)")

        def alone():
            if "tokens" not in waits():
                # On a busy machine its own deadline may go by before the others have come: it is asked once more.
                driver.get_part(where)
            return waits() == ["tokens"]

        until(driver, "a slow panel does not hold the others", alone)
        assert "Attributes" in text(driver) and has(driver, "[data-rest]")
        assert "It is on its way" in driver.find_element(By.ID, "tokens").text
        driver.execute_script("document.body.dataset.same = ''")
        held.go.set()
        until(driver, "a panel that takes long comes by itself", lambda: has(driver, "#tokens svg.chart.tokens"))
        until(driver, "and then nothing is on its way", lambda: not has(driver, "[data-rest], .pending"))
        assert bool(has(driver, "body[data-same]")) == BUNDLE, "with scripts the page stays, without it is loaded again"
        assert "rest=" not in driver.current_url or not BUNDLE
        quiet_console(driver, "of a page that comes in parts")
    finally:
        held.end()


def main():
    for path in ("/", "/latency", "/sql?q=SELECT+1+AS+one"):
        fits_its_budget(path)
    is_not_told_to_a_name_that_leads_here()
    driver = browser()
    try:
        says_that_nothing_came(driver)
        calls_a_region_silent(driver)
        says_that_it_took_too_long(driver)
        is_told_in_two_zones(driver)
        leads_somewhere_everywhere(driver)
        goes_back_and_forward(driver)
        comes_in_parts(driver, next(path for path in pages(driver, BASE) if path.startswith("/request/")))
        if BUNDLE:
            compares_a_box(driver)
            compares_a_box_of_an_objective(driver)
            is_used_by_keys_alone(driver)
            renews_without_moving(driver)
            does_without_wasm(driver)
            does_without_the_editor(driver)
        print("holds: every scenario")
    finally:
        driver.quit()


main()
