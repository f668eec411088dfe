"""Goes from a burning objective to the tokens of a slow call, in three clicks, as somebody on call does.

usage: clicks.py URL OBJECTIVE NODE    (NODE is the one that was made slow)

Prints one line per click; an assertion ends it.
"""

import sys
import tempfile

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

BASE, OBJECTIVE, NODE = sys.argv[1:4]
PATIENCE_S = 60


def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in "--headless=new --no-sandbox --disable-gpu --disable-background-networking --disable-dev-shm-usage".split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tempfile.mkdtemp()}")
    # The way is there without scripts.
    options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))


def seen(driver, selector, again):
    """The first element that matches; a page that was busy is asked for again."""

    def found(_):
        elements = driver.find_elements(By.CSS_SELECTOR, selector)
        if not elements:
            driver.get(again)
        return elements

    elements = WebDriverWait(driver, PATIENCE_S, poll_frequency=2).until(found)
    return elements[0]


def click(driver, selector):
    for _ in range(5):
        try:
            return seen(driver, selector, driver.current_url).click()
        except StaleElementReferenceException:
            # Without scripts a live page loads itself again.
            continue
    raise AssertionError(f"{selector} of {driver.current_url} does not stand still")


driver = browser()
try:
    driver.get(f"{BASE}/slo?range=15m")
    rows = seen(driver, "#objectives tbody tr", driver.current_url)
    assert OBJECTIVE in rows.text, f"the objective that burns fastest is another one: {rows.text}"
    click(driver, "#objectives tbody tr:first-child a")
    click(driver, "#different tbody tr:first-child a")
    assert f"/node/{NODE}" in driver.current_url, f"what is different leads to {driver.current_url}"
    print("holds: the objective leads to the slow node")
    beside = seen(driver, "#peers tbody", driver.current_url).text
    assert "this node" in beside and "▲" in beside, f"nothing of the node is told apart from its peers:\n{beside}"
    click(driver, "#slowest tbody tr:first-child a")
    assert "/request/" in driver.current_url, driver.current_url
    # Once all panels are there: those that take longer than the page come by themselves.
    seen(driver, "body:not(:has([data-rest])) svg.chart.tokens", driver.current_url)
    body = driver.find_element(By.TAG_NAME, "body").text
    assert "It waited longer for its first token than" in body, body[:600]
    print("holds: the node leads to the tokens of a slow call")
finally:
    driver.quit()
