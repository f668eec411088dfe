"""Means harm to the dashboard in a real browser: telemetry that is markup, pages of other sites, planted sessions, links that lead away.

usage: intruder.py DASHBOARD_URL OTLP_URL AGENT_TOKEN ANN_TOKEN ACME_TOKEN ODD_TOKEN [SHOTS]

`ann` and the reader with the odd name see everything, `acme` sees tenant acme. With SHOTS, a directory, pictures of the login and of what
is shared are put there. Prints one line per thing that held; an assertion ends it.
"""
import http.client
import http.server
import json
import os
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from datetime import datetime, timezone

from questions_fleet import attributes
from selenium import webdriver
from selenium.common.exceptions import NoAlertPresentException, WebDriverException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

BASE, OTLP, AGENT, ANN, ACME, ODD = sys.argv[1:7]
SHOTS = sys.argv[7] if len(sys.argv) > 7 else None
PATIENCE_S = 60
QUIET = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars"
).split()
# Ends a text, an attribute, a title, an SVG and a URL; each would leave a mark in the window.
MARKUP = [
    "<script>pwned=1</script>",
    "\"><img src=x onerror=pwned=1>",
    "'><svg onload=pwned=1>",
    "</title></textarea></style><iframe srcdoc='<script>top.pwned=1</script>'>",
    "javascript:pwned=1//",
]
ZETA = "zeta-secret"
HOUR, SECOND = 3600 * 10**9, 10**9


# ---- telemetry ---------------------------------------------------------------------------------------------------------------

def send(path, body):
    request = urllib.request.Request(
        f"{OTLP}/v1/{path}", json.dumps(body).encode(), {"content-type": "application/json", "authorization": f"Bearer {AGENT}"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200, path


def resource(text, n):
    return {"attributes": attributes({
        "service.name": f"{text} service", "service.version": text, "service.instance.id": f"{text}/{n}", "host.id": f"{text} host",
        "host.type": f"{text} type", "cloud.region": f"{text} region", "cloud.availability_zone": text, "k8s.cluster.name": text,
        "k8s.namespace.name": text, "deployment.environment.name": text, "tokenwatt.pool": text, text: text,
    })}


def spans(text, tenant, n, now):
    """One call with its tokens, and a span beside it."""
    trace, root, begun = f"{n + 1:032x}", f"{n + 1:016x}", now - 90 * SECOND
    call = {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": f"{text} model", "gen_ai.response.model": text,
        "gen_ai.usage.input_tokens": 40, "gen_ai.usage.output_tokens": 3, "gen_ai.latency.time_to_first_token": 1.5,
        "gen_ai.latency.e2e": 2.5, "tokenwatt.measured_at": "server", "tokenwatt.tenant": tenant, "tokenwatt.engine": text,
        "gen_ai.response.finish_reasons": [text], "error.type": text if n % 2 else None, "tokenwatt.device_us.prefill": 1000, text: text,
    }
    one = {"traceId": trace, "kind": 2, "startTimeUnixNano": str(begun), "status": {"code": 2, "message": text} if n % 2 else {}}
    made = [
        {**one, "spanId": root, "name": "llm_request", "endTimeUnixNano": str(begun + 5 * SECOND // 2), "attributes": attributes(call)},
        {**one, "spanId": f"{n + 10**6:016x}", "parentSpanId": root, "name": f"{text} span", "endTimeUnixNano": str(begun + SECOND),
         "attributes": attributes({text: text, "tokenwatt.tenant": tenant}),
         "events": [{"timeUnixNano": str(begun + 1), "name": text, "attributes": attributes({text: text})}]},
    ]
    for index in range(3):
        at = begun + 3 * SECOND // 2 + index * SECOND // 2
        made.append({
            "traceId": trace, "spanId": f"{n * 10 + index + 10**8:016x}", "parentSpanId": root, "name": "token", "kind": 1,
            "startTimeUnixNano": str(at - 1000), "endTimeUnixNano": str(at), "attributes": attributes({
                "gen_ai.request.model": f"{text} model", "tokenwatt.tenant": tenant, "tokenwatt.token.index": index,
                "tokenwatt.token.stall": text}),
        })
    return made


def logs(text, tenant, now):
    return {"timeUnixNano": str(now - 60 * SECOND), "severityNumber": 17, "severityText": text, "body": {"stringValue": f"{text} body"},
            "attributes": attributes({text: text, "tokenwatt.tenant": tenant})}


def power(text, now):
    point = {"timeUnixNano": str(now - 60 * SECOND), "asDouble": 250.0,
             "attributes": attributes({"hw.id": text, "hw.type": "gpu", "hw.vendor": text, "hw.model": text})}
    return {"name": "hw.power", "unit": "W", "gauge": {"dataPoints": [point]}}


def alerts(text, n, now):
    """One alert as Alertmanager posts it, with every text of its sender's choice, addresses among them."""
    at = datetime.fromtimestamp(now / 1e9 - 60, timezone.utc).isoformat()
    labels = {"alertname": f"{text} alert", "severity": text, "region": f"{text} region", "model": f"{text} model", "instance": text, text: text}
    return {"status": "firing", "labels": labels, "annotations": {"summary": f"{text} summary", "description": text, text: text}, "startsAt": at,
            "endsAt": "0001-01-01T00:00:00Z", "generatorURL": text, "fingerprint": f"{n:02x} {text}"}


def notify(text, n, now):
    sent = {"version": "4", "receiver": text, "status": "firing", "externalURL": text, "groupKey": text, "truncatedAlerts": 0,
            "groupLabels": {}, "commonLabels": {}, "commonAnnotations": {}, "alerts": [alerts(text, n, now)]}
    headers = {"content-type": "application/json", "authorization": f"Bearer {AGENT}"}
    request = urllib.request.Request(f"{OTLP}/api/v1/alerts", json.dumps(sent).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200


def soiled():
    """Every text that telemetry carries is markup; beside it a tenant whose rows only some may see."""
    now = time.time_ns()
    texts = [(text, text) for text in MARKUP] + [("acme-own", "acme"), (ZETA, "zeta")]
    for n, (text, tenant) in enumerate(texts):
        where = resource(text, n)
        send("traces", {"resourceSpans": [{"resource": where, "scopeSpans": [{"scope": {"name": text}, "spans": spans(text, tenant, n, now)}]}]})
        send("logs", {"resourceLogs": [{"resource": where, "scopeLogs": [{"logRecords": [logs(text, tenant, now)]}]}]})
        send("metrics", {"resourceMetrics": [{"resource": where, "scopeMetrics": [{"metrics": [power(text, now)]}]}]})
    leading = ["javascript:pwned=1", " javascript:pwned=1", "data:text/html,<script>pwned=1</script>", "http://x\" onmouseover=\"pwned=1"]
    for n, text in enumerate(MARKUP + leading):
        notify(text, n, now)
    for table, wanted in (("requests", len(texts)), ("logs", len(texts)), ("devices", len(texts)), ("alerts", len(MARKUP + leading))):
        deadline = time.monotonic() + PATIENCE_S
        while (seen := ask(ANN, f"SELECT count(*) FROM {table}")[0][0]) < wanted:
            assert time.monotonic() < deadline, f"{seen} rows of {table}"
            time.sleep(0.3)


def ask(token, sql):
    headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{BASE}/api/v1/sql", json.dumps({"sql": sql}).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["rows"]


# ---- browser -----------------------------------------------------------------------------------------------------------------

def browser(scripts=True):
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in QUIET:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tempfile.mkdtemp()}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    if not scripts:
        options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))


def find(driver, selector):
    return driver.find_element(By.CSS_SELECTOR, selector)


def until(driver, what, holds):
    WebDriverWait(driver, PATIENCE_S).until(lambda _: holds(), f"{what}: {driver.current_url}\n{text(driver)[:1500]}")


def steady(look):
    """What is seen; a page that renews itself meanwhile is looked at again."""
    for _ in range(10):
        try:
            return look()
        except WebDriverException:
            time.sleep(0.2)
    return look()


def text(driver):
    return steady(lambda: find(driver, "body").text)


def main_text(driver):
    """Without the frame, which names the reader, and the address of the page."""
    return steady(lambda: find(driver, "#main").text)


def path(driver):
    parts = urllib.parse.urlsplit(driver.current_url)
    assert f"{parts.scheme}://{parts.netloc}" == BASE, f"the browser is at {driver.current_url}"
    return parts.path


def sign_in(driver, token, at="/login"):
    driver.get(BASE + at)
    find(driver, "#token").send_keys(token)
    find(driver, ".entry button.main").click()


def session(driver):
    cookies = driver.execute_cdp_cmd("Network.getCookies", {"urls": [BASE]})["cookies"]
    return next((cookie for cookie in cookies if cookie["name"] == "tokenwatt_session"), None)


def shot(driver, name, theme="light", narrow=False):
    if not SHOTS:
        return
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]})
    size = (390, 844) if narrow else (1280, 860)
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": size[0], "height": size[1], "deviceScaleFactor": 2, "mobile": False})
    driver.save_screenshot(os.path.join(SHOTS, f"{name}-{'narrow-' if narrow else ''}{theme}.png"))
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def shots(driver, name):
    for theme in ("light", "dark"):
        shot(driver, name, theme)
        shot(driver, name, theme, narrow=True)


# ---- what has to hold --------------------------------------------------------------------------------------------------------

def the_login_behaves(driver):
    driver.get(BASE + "/cost?by=tenant")
    assert path(driver) == "/login" and "Sign in" in text(driver)
    shots(driver, "login")
    for theme in ("light", "dark"):
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]})
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": False})
        width = driver.execute_script("return document.documentElement.scrollWidth")
        assert width <= 390, f"the login is {width} px wide in {theme}"
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    find(driver, "#token").send_keys("tw_wrong")
    find(driver, ".entry button.main").click()
    until(driver, "a wrong token is refused", lambda: "belongs to nobody here" in text(driver))
    assert find(driver, "[role=alert]")
    shots(driver, "login-refused")
    # A session that somebody planted before is not the one afterwards.
    driver.add_cookie({"name": "tokenwatt_session", "value": "a" * 64, "path": "/"})
    find(driver, "#token").send_keys(ANN)
    find(driver, ".entry button.main").click()
    until(driver, "the login leads back", lambda: "/cost?by=tenant" in driver.current_url)
    cookie = session(driver)
    assert cookie["value"] != "a" * 64 and cookie["httpOnly"] and cookie["sameSite"] == "Strict", cookie
    assert "tokenwatt_session" not in driver.execute_script("return document.cookie"), "scripts see the session"
    print("holds: the login refuses, explains, leads back, and its session is new and out of reach of scripts")


def the_login_leads_nowhere_else(driver):
    for place in ("//evil.example", "https://evil.example/", "/\\evil.example", "/%5Cevil.example", "javascript:pwned=1", "/\t/evil.example",
                  "/.//evil.example", "data:text/html,x"):
        driver.delete_all_cookies()
        sign_in(driver, ANN, "/login?next=" + urllib.parse.quote(place, safe=""))
        until(driver, "signed in", lambda: session(driver) and path(driver) != "/login")
        driver.get(BASE + "/login?next=" + urllib.parse.quote(place, safe=""))
        path(driver)
    print("holds: no address after the login is on another site")


def unharmed(driver, where):
    try:
        raise AssertionError(f"{where} ran a script that says {driver.switch_to.alert.text}")
    except NoAlertPresentException:
        pass
    if driver.execute_script("return window.pwned !== undefined"):
        raise AssertionError(f"{where} ran what telemetry brought along")
    strange = driver.execute_script(
        "return [...document.querySelectorAll('img, iframe, object, embed, script:not([src]), svg[onload], [onerror], [onload], [onfocus], [onmouseover], "
        "a[href^=\"javascript:\" i], [style*=expression]')].map(it => it.outerHTML.slice(0, 200))"
    )
    assert not strange, f"{where}: {strange}"
    said = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert not said, f"{where}: {said}"


def hrefs(driver, start):
    links = lambda: driver.find_elements(By.CSS_SELECTOR, f"main a[href^='{start}']")
    return steady(lambda: sorted({link.get_attribute("href")[len(BASE):] for link in links()}))


def pages(driver):
    """Every page, and those that lie behind what telemetry calls its things."""
    driver.get(BASE + "/requests?range=1h")
    until(driver, "calls are listed", lambda: driver.find_elements(By.CSS_SELECTOR, "main a[href^='/request/']"))
    found = hrefs(driver, "/request/")
    driver.get(BASE + "/fleet?range=1h")
    found += hrefs(driver, "/node/") + hrefs(driver, "/region/")
    plain = ["/", "/slo", "/slo/tight", "/latency?by=tenant", "/latency?by=model&metric=e2e", "/fleet", "/requests", "/cost", "/cost?by=tenant",
             "/cost?by=hardware", "/power", "/alerts", "/logs", "/settings", "/go?q=pwned",
             "/sql?q=SELECT+tenant,+model,+region,+attributes+FROM+requests", "/sql?q=SELECT+body,+attributes+FROM+logs",
             "/share?page=/" + urllib.parse.quote(MARKUP[1])]
    marked = [f"/{page}?{urllib.parse.urlencode({field: payload})}" for payload in MARKUP
              for page, field in (("requests", "tenant"), ("logs", "words"), ("sql", "q"), ("go", "q"), ("latency", "model"), ("login", "next"))]
    return plain + found + marked


def no_text_becomes_markup(driver):
    """Signed in by one whose own name is markup."""
    driver.delete_all_cookies()
    sign_in(driver, ODD)
    until(driver, "signed in", lambda: path(driver) == "/")
    driver.get_log("browser")
    shown, told, all_pages = 0, 0, pages(driver)
    for page in all_pages:
        driver.get(BASE + page)
        unharmed(driver, page)
        # The reader's own name stands beside it on every page.
        shown += "pwned=1" in main_text(driver)
        told += "onerror=pwned=1&gt; model" in driver.page_source
    assert len(all_pages) > 50 and shown > 20, f"{shown} of {len(all_pages)} pages showed markup as text"
    assert told > 3, f"{told} pages show the tenant that no other may see"
    assert driver.execute_script("return document.querySelector('.reader span').textContent").startswith("<img"), "the reader's name"
    alerts_lead_nowhere(driver)
    print(f"holds: {shown} of {len(all_pages)} pages show markup as text and none runs it")


def alerts_lead_nowhere(driver):
    """What an alert says is text; an address of its sender's choice is a link only to a page of the web."""
    driver.get(BASE + "/alerts?range=1h&live=off")
    rows = steady(lambda: [row.text for row in driver.find_elements(By.CSS_SELECTOR, "#firing tbody tr")])
    assert all(any(f"{text} summary" in row for row in rows) for text in MARKUP), f"not every alert is shown:\n{rows}"
    links = steady(lambda: [link.get_attribute("href") for link in driver.find_elements(By.CSS_SELECTOR, "#firing a[rel=noreferrer]")])
    assert links and all(link.startswith(("http://", "https://")) for link in links), links
    for link in driver.find_elements(By.CSS_SELECTOR, "#firing a[rel=noreferrer]"):
        driver.execute_script("arguments[0].scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'})", link)
        ActionChains(driver).move_to_element(link).perform()
    unharmed(driver, "/alerts under the pointer")
    print(f"holds: {len(rows)} alerts are text, and their {len(links)} links lead to pages of the web")


class Elsewhere:
    """A page of another site: `localhost` beside `127.0.0.1`, and the same host on another port."""

    def __init__(self):
        pages = {}

        class Site(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.end_headers()
                self.wfile.write(pages.get(self.path, "").encode())

            def log_message(self, *_):
                pass

        self.pages, self.server = pages, http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, host, path):
        return f"http://{host}:{self.server.server_address[1]}{path}"


def other_sites_change_nothing(driver, elsewhere):
    driver.delete_all_cookies()
    sign_in(driver, ANN)
    until(driver, "signed in", lambda: path(driver) == "/")
    before = session(driver)["value"]
    forms = {"/logout": {}, "/theme": {"theme": "dark", "back": "/"}, "/sql": {"q": "SELECT 1"}, "/share": {"page": "/cost", "for": "1h"},
             "/login": {"token": ACME}}
    for action, fields in forms.items():
        inputs = "".join(f"<input name='{name}' value='{value}'>" for name, value in fields.items())
        elsewhere.pages[action] = f"<form method=post action='{BASE}{action}'>{inputs}<button>go</button></form>"
    asked = "{method: 'POST', mode: 'no-cors', credentials: 'include', headers: {'content-type': 'text/plain'}, body: 'SELECT 4711 AS forged'}"
    elsewhere.pages["/fetch"] = f"<p id=done></p><script>fetch('{BASE}/api/v1/sql', {asked}).finally(() => done.textContent = 'done')</script>"
    elsewhere.pages["/frame"] = f"<iframe src='{BASE}/cost'></iframe>"
    for host in ("localhost", "127.0.0.1"):
        for action in forms:
            driver.get(elsewhere.url(host, action))
            find(driver, "button").click()
            until(driver, action, lambda: driver.current_url.startswith(BASE))
            assert "page of another site" in text(driver), f"{action} from {host}: {text(driver)[:300]}"
        driver.get(elsewhere.url(host, "/fetch"))
        until(driver, "fetched", lambda: find(driver, "#done").text == "done")
        driver.get(elsewhere.url(host, "/frame"))
        driver.switch_to.frame(0)
        assert "tokenwatt" not in text(driver) and "Cost" not in text(driver), "the dashboard is in a frame of another site"
        driver.switch_to.default_content()
    driver.get(BASE + "/")
    assert path(driver) == "/" and session(driver)["value"] == before, "the session is another one"
    assert driver.execute_script("return document.documentElement.dataset.theme") != "dark"
    audited = ask(ANN, "SELECT count(*) FROM system.audit WHERE sql LIKE '%4711%' AND sql NOT LIKE '%audit%'")
    assert audited == [[0]], f"a statement of another site ran: {audited}"
    # A link there is a link: whoever is signed in arrives.
    elsewhere.pages["/chat"] = f"<a href='{BASE}/latency?by=tenant'>look</a>"
    driver.get(elsewhere.url("localhost", "/chat"))
    find(driver, "a").click()
    until(driver, "a link from a chat arrives", lambda: "/latency?by=tenant" in driver.current_url and "Latency" in text(driver))
    driver.get_log("browser")
    print("holds: forms, fetches and frames of other sites do nothing, and their links still lead here")


def readers_see_their_own(driver):
    driver.delete_all_cookies()
    sign_in(driver, ACME)
    until(driver, "signed in", lambda: path(driver) == "/")
    seen = ""
    for page in pages(driver):
        driver.get(BASE + page)
        source = driver.page_source
        assert ZETA not in source, f"{page} shows another tenant's rows to acme"
        assert "onerror=pwned=1&gt; model" not in source, f"{page} shows a tenant that is markup"
        seen += text(driver) if page.startswith(("/requests", "/latency", "/logs")) else ""
    assert "acme-own" in seen, "not even its own"
    # A page names its reader and all its tables: what is looked at is the answer.
    asked = "SELECT DISTINCT tenant FROM requests"
    answer = fetched(driver, "/sql.csv?q=" + urllib.parse.quote(asked))
    assert answer.split() == ["tenant", "acme"], answer[:300]
    driver.get(BASE + "/sql?q=" + urllib.parse.quote(asked))
    assert [cell.text for cell in driver.find_elements(By.CSS_SELECTOR, "[data-rows] tbody td")] == ["acme"], text(driver)[:1500]
    driver.get(BASE + "/sql?q=SELECT+*+FROM+devices")
    assert find(driver, "[data-refused]").get_attribute("data-refused") == "denied", text(driver)[:1500]
    driver.get(BASE + "/requests?range=1h")
    assert "only acme" in text(driver)
    shot(driver, "bound")
    print("holds: every page shows a reader its own tenant's rows alone")


def fetched(driver, path_):
    return driver.execute_async_script("const done = arguments[1]; fetch(arguments[0]).then(it => it.text()).then(done)", path_)


def links_show_one_page(driver):
    driver.get(BASE + "/requests?range=1h")
    opener = find(driver, "a[data-dialog=share]")
    if driver.find_elements(By.CSS_SELECTOR, "html.scripted"):
        opener.click()
        until(driver, "the dialog opens", lambda: driver.find_elements(By.CSS_SELECTOR, "#share[open]"))
        shots(driver, "share")
        find(driver, "#share .sharing button.main").click()
    else:
        driver.get(opener.get_attribute("href"))
        shots(driver, "share")
        find(driver, ".sharing button.main").click()
    until(driver, "the link is made", lambda: driver.find_elements(By.ID, "link"))
    shots(driver, "share-made")
    link = find(driver, "#link").text
    assert link.startswith(BASE + "/shared/"), link
    guest = browser()
    try:
        guest.get(link)
        until(guest, "the page is shown", lambda: "Shared by acme" in text(guest))
        source = guest.page_source
        assert "acme-own" in source and ZETA not in source, "the rows are not the sharer's"
        assert not guest.find_elements(By.CSS_SELECTOR, ".rail, .scope, form[method=post]"), "there is more than the page"
        shots(guest, "shared")
        unharmed(guest, "the shared page")
        assert session(guest) is None
        for page in ("/latency", "/cost", "/sql?q=SELECT+1"):
            guest.get(BASE + page)
            assert path(guest) == "/login", page
        guest.get(link[:-4] + "AAAA")
        assert "not made here" in text(guest)
        shots(guest, "share-ended")
    finally:
        guest.quit()
    print("holds: a link shows one page with the rights of its maker, and opens nothing else")


def kept(driver, name):
    """Statements that the browser keeps for a reader."""
    return driver.execute_script("return localStorage.getItem(`tokenwatt.sql.${arguments[0]}`)", name) or ""


def leaving_leaves_nothing(driver):
    is_edited = keeps_apart(driver)
    driver.get(BASE + "/requests?range=1h")
    left = session(driver)
    find(driver, ".reader button").click()
    until(driver, "signed out", lambda: path(driver) == "/login" and "signed out" in text(driver))
    assert session(driver) is None
    assert not kept(driver, "acme"), "who signed out left statements behind"
    assert is_edited == ("of_ann" in kept(driver, "ann")), "who did not sign out lost statements"
    driver.back()
    until(driver, "the way back shows nothing", lambda: path(driver) == "/login" and "acme-own" not in text(driver))
    driver.add_cookie({"name": "tokenwatt_session", "value": left["value"], "path": "/"})
    driver.get(BASE + "/requests")
    assert path(driver) == "/login" and "session has ended" in text(driver), "the old session still opens pages"
    print("holds: after signing out neither the way back nor the old cookie nor what the browser keeps shows anything")


def keeps_apart(driver):
    """On one machine: ann's session ends by itself, acme signs in. Statements of the one are not shown to the other, and are kept. Says
    whether there is an editor, which keeps them."""
    driver.delete_all_cookies()
    sign_in(driver, ANN, "/login?next=" + urllib.parse.quote("/sql?q=SELECT+1+AS+of_ann", safe=""))
    until(driver, "ann's statement ran", lambda: path(driver) == "/sql" and "served by" in text(driver))
    is_edited = bool(driver.find_elements(By.CSS_SELECTOR, "script[src*='/assets/web/']"))
    if is_edited:
        until(driver, "it is kept", lambda: "of_ann" in kept(driver, "ann"))
    driver.delete_all_cookies()
    sign_in(driver, ACME, "/login?next=" + urllib.parse.quote("/sql?q=SELECT+1+AS+of_acme", safe=""))
    until(driver, "acme's statement ran", lambda: path(driver) == "/sql" and "served by" in text(driver))
    if is_edited:
        until(driver, "it is kept", lambda: "of_acme" in kept(driver, "acme"))
        find(driver, "button.kept").click()
        shown = find(driver, "#kept").get_attribute("textContent")
        assert "of_acme" in shown and "of_ann" not in shown, f"acme is shown {shown}"
    return is_edited


def without_scripts():
    driver = browser(scripts=False)
    try:
        sign_in(driver, ACME, "/login?next=%2Frequests%3Frange%3D1h")
        until(driver, "signed in", lambda: path(driver) == "/requests" and "acme-own" in text(driver))
        driver.get(find(driver, "a[data-dialog=share]").get_attribute("href"))
        find(driver, ".sharing button.main").click()
        until(driver, "the link is made", lambda: "/shared/" in text(driver))
        find(driver, ".reader button").click()
        until(driver, "signed out", lambda: path(driver) == "/login")
    finally:
        driver.quit()
    print("holds: signing in and out and sharing without scripts")


def paths_do_not_climb():
    """Sent as they are: a browser would tidy them up."""
    host = urllib.parse.urlsplit(BASE).netloc
    ups = ["../" * 8, "..%2f" * 8, "%2e%2e/" * 8, "%2e%2e%2f" * 8, "..%5c" * 8, "%252e%252e%252f" * 8, "....//" * 8, "/"]
    for start in ("/assets/web/", "/assets/", "/", "/shared/"):
        for up in ups:
            for file in ("etc/passwd", "proc/self/environ"):
                connection = http.client.HTTPConnection(host, timeout=60)
                connection.putrequest("GET", f"{start}{up}{file}", skip_host=False)
                connection.endheaders()
                answer = connection.getresponse()
                body = answer.read()
                assert answer.status in (400, 401, 403, 404), f"{start}{up}{file}: {answer.status}"
                assert b"root:" not in body and b"PATH=" not in body, f"{start}{up}{file}"
    print("holds: no path leads to a file outside the bundle")


def main():
    soiled()
    paths_do_not_climb()
    elsewhere = Elsewhere()
    driver = browser()
    try:
        the_login_behaves(driver)
        the_login_leads_nowhere_else(driver)
        no_text_becomes_markup(driver)
        other_sites_change_nothing(driver, elsewhere)
        readers_see_their_own(driver)
        links_show_one_page(driver)
        leaving_leaves_nothing(driver)
    finally:
        driver.quit()
    without_scripts()
    print("unharmed")


main()
