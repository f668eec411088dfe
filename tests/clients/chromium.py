"""A real browser, and what the tests of the dashboard do with it."""

import os
import tempfile

from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

PATIENCE_S = 60
REGIONS = ("eu-west-1", "us-east-1", "us-west-2")
# Chromium asks the network for things of its own; here it talks to the server alone.
QUIET = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage"
).split()


def browser(scripts=True, flags=()):
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in [*QUIET, *flags]:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tempfile.mkdtemp()}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    if not scripts:
        options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
    return Browser(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))


class Browser(webdriver.Chrome):
    """One whose pages are read once all their panels are there: those that take long come after the page, by themselves."""

    def get(self, url):
        super().get(url)
        until_whole(self)

    def get_part(self, url):
        """The page as it is sent first."""
        super().get(url)


def until_whole(driver):
    WebDriverWait(driver, PATIENCE_S).until(lambda _: not has(driver, "[data-rest]"), f"{driver.current_url} does not come whole")


def text(driver):
    return driver.find_element(By.TAG_NAME, "body").text


def until(driver, what, holds):
    """Waits until it holds, and says so; if it does not, with what the page says by then."""
    try:
        WebDriverWait(driver, PATIENCE_S).until(lambda _: holds())
    except TimeoutException:
        raise AssertionError(f"not: {what}; the page says:\n{text(driver)[:2000]}") from None
    print("holds:", what)


def has(driver, selector):
    return driver.find_elements(By.CSS_SELECTOR, selector)


def link(driver, base, selector):
    return driver.find_element(By.CSS_SELECTOR, selector).get_attribute("href")[len(base):]


def pages(driver, base):
    """The path of every page with words that it shows, a real request and a real node among them."""
    driver.get(base + "/requests")
    until(driver, "the list links its requests", lambda: has(driver, "a[href^='/request/']"))
    request = link(driver, base, "a[href^='/request/']")
    driver.get(base + "/fleet")
    until(driver, "the fleet links its nodes", lambda: has(driver, "a[href^='/node/']"))
    node = link(driver, base, "a[href^='/node/']")
    return {
        "/": "Regions",
        "/slo": "Objectives",
        "/latency": "Who is slow",
        "/latency?metric=itl": "gaps between tokens",
        "/fleet": "Models by region",
        "/region/eu-west-1": "TTFT p99 by node",
        node: "Beside its peers",
        "/requests": "longest gap",
        request: "Phases",
        "/cost": "Cost by region",
        "/cost?by=tenant&idle=share": "given to what calls used",
        "/cost?by=key:k8s.namespace.name&idle=share": "Cost by k8s.namespace.name",
        "/power": "Output tokens per joule",
        "/alerts": "Firing",
        "/logs": "Records",
        "/settings": "Who sends calls",
        "/go?q=eu-west-1": "By name",
        "/sql?q=SELECT+1+AS+one": "served by",
    }


def themed(driver, theme):
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]})


def press(driver, *keys):
    ActionChains(driver).send_keys(*keys).perform()


def hydrated(driver):
    """Islands are alive: those of this page say so on its root."""
    until(driver, "the islands started", lambda: has(driver, "html.scripted"))


def complaints(driver):
    """Errors of the console since it was last asked."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]


def axe():
    """The source of axe-core, which `cargo xtask test` fetches."""
    with open(os.environ["TOKENWATT_AXE"], encoding="utf-8") as source:
        return source.read()


def barriers(driver, source):
    """What axe-core finds on the page that is open: rule, and where."""
    driver.execute_script(source)
    found = driver.execute_async_script(
        "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']})"
        ".then(found => done(found.violations.map(v => [v.id, v.help, v.nodes.slice(0, 3).map(n => n.html.slice(0, 160))])),"
        " error => done([['axe', String(error), []]]))"
    )
    return found
