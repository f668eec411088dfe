"""Opens the dashboard's pages in Chromium and looks at them as a person would.

usage: browser.py URL BUNDLE    (BUNDLE is `bundle` when the server serves one, else `none`)

Every page is read in light and dark, wide and narrow, with scripts and without. Prints one line per thing that held; an
assertion ends it.
"""

import sys
import tempfile
import time

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

BASE, BUNDLE = sys.argv[1], sys.argv[2] == "bundle"
REGIONS = ("eu-west-1", "us-east-1", "us-west-2")
PATIENCE_S = 60
# Chromium asks the network for things of its own; here it talks to the server alone.
QUIET = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage"
).split()


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


def text(driver):
    return driver.find_element(By.TAG_NAME, "body").text


def until(driver, what, holds):
    WebDriverWait(driver, PATIENCE_S).until(lambda _: holds(), f"{what}; the page says:\n{text(driver)[:2000]}")
    print("holds:", what)


def pages(driver):
    """The path of every page, with a real request among them."""
    driver.get(BASE + "/requests")
    until(driver, "the list links its requests", lambda: driver.find_elements(By.CSS_SELECTOR, "a[href^='/request/']"))
    request = driver.find_element(By.CSS_SELECTOR, "a[href^='/request/']").get_attribute("href")[len(BASE):]
    return ["/", "/requests", request, "/sql?q=SELECT+1+AS+one"]


def shows_the_fleet(driver):
    def complete():
        driver.get(BASE + "/")
        return all(region in text(driver) for region in REGIONS) and "No answer" not in text(driver)

    until(driver, "the Overview shows three regions and no failed panel", complete)
    seen = text(driver)
    for words in ("TTFT p50", "TTFT p99", "tok/s", "tok/J", "assumed", "/h", "no price for custom-npu.8x"):
        assert words in seen, f"the Overview lacks {words!r}:\n{seen}"


def background(driver):
    return driver.execute_script("return getComputedStyle(document.body).backgroundColor")


def fits_and_follows_the_theme(driver, path):
    shades = {}
    for theme in ("light", "dark"):
        media = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        driver.get(BASE + path)
        shades[theme] = background(driver)
    assert shades["light"] != shades["dark"], f"{path} looks the same in light and dark: {shades}"
    narrow = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
    driver.get(BASE + path)
    width = driver.execute_script("return document.documentElement.scrollWidth")
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert width <= 390, f"{path} is {width} px wide in a window of 390 px"
    print("holds:", path.split("?")[0], "in light and dark, at 390 px")


def complaints(driver):
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]


def islands_behave(driver):
    driver.get(BASE + "/")
    until(driver, "the crosshair follows the pointer", lambda: hover(driver))
    before = driver.find_element(By.ID, "freshness").text
    until(driver, "the page follows new data by itself", lambda: driver.find_element(By.ID, "freshness").text != before)
    driver.find_element(By.CSS_SELECTOR, ".themes button[value=dark]").click()
    until(driver, "the theme button darkens the page", lambda: theme(driver) == "dark")


def hover(driver):
    chart = driver.find_element(By.CSS_SELECTOR, "svg.chart")
    ActionChains(driver).scroll_to_element(chart).move_to_element(chart).perform()
    return driver.find_elements(By.CSS_SELECTOR, "#tip.on")


def theme(driver):
    return driver.execute_script("return document.documentElement.dataset.theme")


def with_scripts():
    driver = browser()
    try:
        shows_the_fleet(driver)
        for path in pages(driver):
            fits_and_follows_the_theme(driver, path)
        if BUNDLE:
            islands_behave(driver)
        said = complaints(driver)
        assert not said, f"the console is not empty: {said}"
        print("holds: the console is empty")
    finally:
        driver.quit()


def listed(driver, path):
    """The rows of a page's table; a page that had to say that it is busy is asked for again."""
    until = time.monotonic() + PATIENCE_S
    while True:
        driver.get(BASE + path)
        rows = [row.text for row in driver.find_elements(By.CSS_SELECTOR, "tbody tr")]
        if rows or time.monotonic() > until:
            return rows
        time.sleep(1)


def without_scripts():
    driver = browser(scripts=False)
    try:
        for path, words in zip(pages(driver), ("Regions", "longest gap", "Phases", "served by")):
            driver.get(BASE + path)
            assert words in text(driver), f"{path} does not show {words!r} without scripts:\n{text(driver)}"
        rows = listed(driver, "/requests?region=eu-west-1")
        assert rows and all("eu-west-1" in row for row in rows), f"the filter is not kept: {rows[:3]}\n{text(driver)}"
        driver.get(BASE + "/sql?q=SELECT+no_such_column+FROM+requests")
        assert "no_such_column" in text(driver), "a wrong statement is not explained"
        print("holds: every page, the filters and SQL without scripts")
    finally:
        driver.quit()


with_scripts()
without_scripts()
