"""Opens the dashboard's pages in Chromium and looks at them as a person would.

usage: browser.py URL BUNDLE    (BUNDLE is `bundle` when the server serves one, else `none`)

Every page is read in light and dark, wide and narrow, with scripts and without, and by axe-core
(`TOKENWATT_AXE` names its file). Prints one line per thing that held; an assertion ends it.
"""

import json
import sys
import time

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import chromium
from chromium import PATIENCE_S, REGIONS, axe, barriers, browser, complaints, hydrated, press, text, themed, until

BASE, BUNDLE = sys.argv[1], sys.argv[2] == "bundle"


def pages(driver):
    return chromium.pages(driver, BASE)


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


def fits_and_follows_the_theme(driver, path, rules):
    shades = {}
    for theme in ("light", "dark"):
        themed(driver, theme)
        driver.get(BASE + path)
        shades[theme] = background(driver)
        found = barriers(driver, rules)
        assert not found, f"axe-core on {path}, {theme}: {json.dumps(found, indent=1)}"
    assert shades["light"] != shades["dark"], f"{path} looks the same in light and dark: {shades}"
    narrow = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
    driver.get(BASE + path)
    width = driver.execute_script("return document.documentElement.scrollWidth")
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert width <= 390, f"{path} is {width} px wide in a window of 390 px"
    print("holds:", path.split("?")[0], "in light and dark, without a barrier that axe-core knows, at 390 px")


def islands_behave(driver):
    driver.get(BASE + "/")
    hydrated(driver)
    until(driver, "the crosshair follows the pointer", lambda: hover(driver))
    before = driver.find_element(By.ID, "freshness").text
    until(driver, "the page follows new data by itself", lambda: driver.find_element(By.ID, "freshness").text != before)
    keys_work(driver)
    driver.find_element(By.CSS_SELECTOR, ".themes button[value=dark]").click()
    until(driver, "the theme button darkens the page", lambda: theme(driver) == "dark")


def keys_work(driver):
    """The keyboard map, the palette, the rail by two letters, and rows, without a mouse."""
    press(driver, "?")
    until(driver, "? shows the keyboard map", lambda: driver.find_elements(By.CSS_SELECTOR, "#keys[open]"))
    press(driver, Keys.ESCAPE)
    ActionChains(driver).key_down(Keys.CONTROL).send_keys("k").key_up(Keys.CONTROL).perform()
    until(driver, "Ctrl K opens the palette", lambda: driver.find_elements(By.CSS_SELECTOR, "#palette[open]"))
    press(driver, "us-west", Keys.ENTER)
    until(driver, "the palette leads to a region", lambda: "/region/us-west-2" in driver.current_url)
    press(driver, "g", "r")
    until(driver, "two letters lead to a page", lambda: "/requests" in driver.current_url)
    hydrated(driver)
    press(driver, "j", "j", Keys.ENTER)
    until(driver, "rows are opened by keys", lambda: "/request/" in driver.current_url)
    zooms_and_comes_back(driver)


def zooms_and_comes_back(driver):
    driver.get(BASE + "/?region=eu-west-1")
    hydrated(driver)
    chart = driver.find_element(By.CSS_SELECTOR, "svg.chart")
    drag = ActionChains(driver).scroll_to_element(chart).move_to_element_with_offset(chart, -60, 0).click_and_hold()
    drag.move_by_offset(90, 0).release().perform()
    until(driver, "a drag over a chart narrows the page", lambda: "from=" in driver.current_url)
    assert "region=eu-west-1" in driver.current_url, driver.current_url
    hydrated(driver)
    press(driver, "z")
    until(driver, "z comes back", lambda: "from=" not in driver.current_url)


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
        rules = axe()
        for path in pages(driver):
            fits_and_follows_the_theme(driver, path, rules)
            said = complaints(driver)
            assert not said, f"the console is not empty on {path}: {said}"
        if BUNDLE:
            islands_behave(driver)
        said = complaints(driver)
        assert not said, f"the console is not empty: {said}"
        print("holds: the console is empty")
    finally:
        driver.quit()


def listed(driver, path):
    """The rows that a page's tables show, those folded below charts left out; a page that had to say that it is busy is asked for again."""
    until = time.monotonic() + PATIENCE_S
    while True:
        driver.get(BASE + path)
        rows = [row.text for row in driver.find_elements(By.CSS_SELECTOR, "tbody tr") if row.is_displayed()]
        if rows or time.monotonic() > until:
            return rows
        time.sleep(1)


def without_scripts():
    driver = browser(scripts=False)
    try:
        for path, words in pages(driver).items():
            driver.get(BASE + path)
            assert words in text(driver), f"{path} does not show {words!r} without scripts:\n{text(driver)}"
        rows = listed(driver, "/requests?region=eu-west-1")
        assert rows and all("eu-west-1" in row for row in rows), f"the filter is not kept: {rows[:3]}\n{text(driver)}"
        driver.get(BASE + "/sql?q=SELECT+no_such_column+FROM+requests")
        # The address, with the statement in it, stands at the foot of the page.
        assert "no_such_column" in driver.find_element(By.CSS_SELECTOR, ".card.error").text, "a wrong statement is not explained"
        print("holds: every page, the filters and SQL without scripts")
    finally:
        driver.quit()


with_scripts()
without_scripts()
