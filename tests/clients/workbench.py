"""Works with the SQL page as people do: types, completes, runs, mends, keeps; and takes charts away as pictures.

usage: workbench.py URL BUNDLE    (BUNDLE is `bundle` when the server serves one, else `none`: then the page is its text area)

`TOKENWATT_AXE` names the file of axe-core. Prints one line per thing that held; an assertion ends it.
"""

import json
import os
import pathlib
import struct
import sys
import tempfile
import time
import zlib
from urllib.parse import parse_qs, quote_plus, urlsplit

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from chromium import axe, barriers, browser, complaints, has, hydrated, press, text, themed, until

BASE, BUNDLE = sys.argv[1], sys.argv[2] == "bundle"
KEY = "tokenwatt.sql.everybody"
# CodeMirror takes no key for a completion that has just appeared (`interactionDelay`, 75 ms).
SETTLED_S = 1.0


def quiet_console(driver, where):
    said = complaints(driver)
    assert not said, f"the console is not empty {where}: {said}"


# ---- the editor


def inside(driver, script, *args):
    """Runs a script on the editor's own tree, `root`."""
    return driver.execute_script(f"const root = document.querySelector('.editor')?.shadowRoot; {script}", *args)


def typed(driver):
    """What the form would send."""
    return driver.execute_script("return document.getElementById('q').value")


def options(driver):
    return inside(driver, "return [...root.querySelectorAll('.cm-tooltip-autocomplete li')].map(li => li.textContent)")


def sql(statement):
    return f"{BASE}/sql?q={quote_plus(statement)}"


def opened(driver, address):
    driver.get(address)
    until(driver, "the editor is there", lambda: has(driver, ".editor"))


def focused(driver):
    return driver.execute_script("return document.activeElement.className") == "editor"


def is_dressed(driver):
    """The editor's rules reach it under the page's policy, in the page's own colours."""
    opened(driver, sql("SELECT region FROM calls LIMIT 3 -- few"))
    hydrated(driver)
    colour = lambda where: inside(driver, f"return getComputedStyle({where}).color")
    seen = {}
    for theme in ("light", "dark"):
        themed(driver, theme)
        seen[theme] = colour("root.querySelector('.k')")
        assert seen[theme] != colour("root.querySelector('.cm-content')"), f"keywords look like names in {theme}"
    assert seen["light"] != seen["dark"], f"the editor does not follow the theme: {seen}"
    themed(driver, "light")
    mono = inside(driver, "return getComputedStyle(root.querySelector('.cm-scroller')).fontFamily")
    assert "mono" in mono.lower(), mono
    heights = driver.execute_script("const box = document.getElementById('q'); const high = document.querySelector('.editor').offsetHeight;"
                                    "box.hidden = false; const was = box.offsetHeight; box.hidden = true; return [high, was]")
    assert heights[0] == heights[1], f"the page moves when the editor comes: {heights}"
    quiet_console(driver, "of the editor: is something against the policy?")
    print("holds: the editor wears the page's colours under its policy")


def is_typed_into(driver):
    # Columns are planned apart from the page, which does not wait long for them.
    until(driver, "the tree has its columns", lambda: (driver.get(BASE + "/sql"), has(driver, "nav.tables details li"))[1])
    until(driver, "the editor is there", lambda: has(driver, ".editor"))
    hydrated(driver)
    press(driver, "e")
    assert focused(driver), "e does not lead into the editor"
    press(driver, "SELECT region, g o h ? FROM cal")
    assert "/sql" in driver.current_url and not has(driver, "dialog[open]"), "letters of a statement are taken for commands"
    until(driver, "tables are completed", lambda: any(option.startswith("calls") for option in options(driver)))
    press(driver, Keys.ESCAPE)
    press(driver, *[Keys.BACKSPACE] * len("region, g o h ? FROM cal"))
    press(driver, "count(*) AS n FROM measured_c")
    until(driver, "what is almost written comes first", lambda: options(driver)[:1] == ["measured_calls"])
    time.sleep(SETTLED_S)
    press(driver, Keys.TAB)
    assert typed(driver) == "SELECT count(*) AS n FROM measured_calls", typed(driver)
    press(driver, " WHERE ttft_")
    until(driver, "columns of the table are completed with their units", lambda: any("ttft_s" in option and "s · measured_calls" in option for option in options(driver)))
    press(driver, Keys.ESCAPE)
    press(driver, *[Keys.BACKSPACE] * len("ttft_"))
    press(driver, "approx_perc")
    until(driver, "functions are completed with their arguments", lambda: any("approx_percentile_cont(" in option for option in options(driver)))
    found = barriers(driver, axe())
    assert not found, f"axe-core while something is completed: {json.dumps(found, indent=1)}"
    press(driver, Keys.ESCAPE)
    press(driver, *[Keys.BACKSPACE] * len(" WHERE approx_perc"))
    ActionChains(driver).key_down(Keys.CONTROL).send_keys(Keys.ENTER).key_up(Keys.CONTROL).perform()
    until(driver, "Ctrl Enter runs it", lambda: "q=" in driver.current_url and has(driver, "[data-rows='1']"))
    assert typed(driver) == "SELECT count(*) AS n FROM measured_calls", typed(driver)
    quiet_console(driver, "of typing")


def lets_go(driver):
    """Tab belongs to the text, and does not hold the keyboard: Escape, then Tab, leaves."""
    opened(driver, sql("SELECT 1 AS one"))
    hydrated(driver)
    press(driver, "e", Keys.TAB)
    assert focused(driver) and typed(driver) == "  SELECT 1 AS one", repr(typed(driver))
    press(driver, Keys.ESCAPE, Keys.TAB)
    assert not focused(driver), "the keyboard is caught in the editor"
    assert driver.switch_to.active_element.text == "Run", "Tab does not lead on to the button"
    print("holds: Escape, then Tab, leaves the editor")


def points_to_what_is_wrong(driver):
    for statement, words, place in (
        ("SELECT region\nFROM calls\nWHERE tiem > 1", "tiem", "line 3, column 7"),
        ("SELECT region\nFROM calls WHERE WHERE", None, "line 2"),
        ("SELECT '𝒳é' AS x, nosuch(1)", "nosuch", "line 1, column 19"),
        ("SELECT 1 FROM no_such_table", "no_such_table", "line 1, column 15"),
    ):
        opened(driver, sql(statement))
        until(driver, "a refusal names its place", lambda: place in text(driver))
        marked = lambda: inside(driver, "return [...root.querySelectorAll('.wrong')].map(node => node.textContent).join('')")
        until(driver, f"{words or 'something'} is marked", lambda: marked() == words or words is None and marked())
        driver.find_element(By.CSS_SELECTOR, "a[data-line]").click()
        assert focused(driver), "the link does not lead into the text"
        press(driver, "x")
        until(driver, "the mark goes with what it was about", lambda: not inside(driver, "return root.querySelector('.wrong')"))
    assert driver.find_element(By.CSS_SELECTOR, "pre.pointed u").text == "no_such_table"
    quiet_console(driver, "of refusals")
    print("holds: what a refusal is about is marked in the text")


def does_without_wasm(driver):
    driver.execute_cdp_cmd("Network.enable", {})
    driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*.wasm"]})
    opened(driver, sql("SELECT 7 AS seven"))
    driver.find_element(By.CSS_SELECTOR, "label[for=q]").click()
    ActionChains(driver).key_down(Keys.CONTROL).send_keys(Keys.END).key_up(Keys.CONTROL).send_keys(", 8 AS eight").perform()
    driver.find_element(By.CSS_SELECTOR, ".query button.main").click()
    until(driver, "the editor works without WebAssembly", lambda: "eight" in driver.current_url and "served by" in text(driver))
    driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    complaints(driver)


# ---- what the browser keeps


def stored(driver):
    return json.loads(driver.execute_script("return localStorage.getItem(arguments[0])", KEY) or "{}")


def shown(driver, which):
    return [item.text for item in driver.find_elements(By.CSS_SELECTOR, f"#kept ul.{which} li")]


def keeps_statements(driver):
    driver.get(BASE + "/sql")
    driver.execute_script("localStorage.clear()")
    for statement in ("SELECT 1 AS one", "SELECT '<b>bold</b>' AS two", "SELECT nothing", "SELECT 1 AS one"):
        opened(driver, sql(statement))
    recent = stored(driver)["recent"]
    assert [entry["sql"] for entry in recent] == ["SELECT 1 AS one", "SELECT nothing", "SELECT '<b>bold</b>' AS two"], recent
    assert recent[0]["rows"] == 1 and recent[0]["ms"] >= 0 and recent[1]["failed"] == "invalid", recent
    hydrated(driver)
    press(driver, "h")
    until(driver, "h opens what was kept", lambda: has(driver, "#kept[open]"))
    seen = shown(driver, "recent")
    assert "SELECT 1 AS one" in seen[0] and "1 row" in seen[0] and "ms" in seen[0] and "UTC" in seen[0], seen
    assert "refused: invalid" in seen[1] and "<b>bold</b>" in seen[2], seen
    name = driver.find_element(By.CSS_SELECTOR, "#kept input[name=name]")
    name.send_keys("the <i>one</i>", Keys.ENTER)
    until(driver, "a statement gets a name", lambda: "the <i>one</i>" in "".join(shown(driver, "saved")))
    for theme in ("light", "dark"):
        themed(driver, theme)
        found = barriers(driver, axe())
        assert not found, f"axe-core on what was kept, {theme}: {json.dumps(found, indent=1)}"
    themed(driver, "light")
    press(driver, Keys.ESCAPE)
    until(driver, "Escape closes it", lambda: not has(driver, "#kept[open]"))
    # Going back is no new run.
    before = stored(driver)
    driver.get(BASE + "/sql")
    driver.back()
    until(driver, "the editor is there again", lambda: has(driver, ".editor"))
    assert stored(driver)["recent"] == before["recent"]
    is_found_by_the_palette(driver)
    drops_nothing_that_has_a_name(driver)
    forgets(driver)


def drops_nothing_that_has_a_name(driver):
    """Where fifty statements have names, one more is refused in words, and none of the fifty goes."""
    full = {"recent": [], "saved": [{"name": f"name {n}", "sql": f"SELECT {n}"} for n in range(50)]}
    driver.execute_script("localStorage.setItem(arguments[0], arguments[1])", KEY, json.dumps(full))
    opened(driver, sql("SELECT 7 AS seven"))
    until(driver, "the editor is there", lambda: has(driver, ".editor"))
    driver.find_element(By.CSS_SELECTOR, "button.kept").click()
    name = driver.find_element(By.CSS_SELECTOR, "#kept input[name=name]")
    name.send_keys("one more", Keys.ENTER)
    until(driver, "a full list says so", lambda: "50 are kept already" in driver.find_element(By.CSS_SELECTOR, "#kept output").text)
    assert stored(driver)["saved"] == full["saved"]
    name.clear()
    name.send_keys("name 3", Keys.ENTER)
    until(driver, "a name that is there is given anew", lambda: stored(driver)["saved"][0] == {"name": "name 3", "sql": "SELECT 7 AS seven"})
    assert len(stored(driver)["saved"]) == 50


def is_found_by_the_palette(driver):
    opened(driver, BASE + "/sql")
    hydrated(driver)
    ActionChains(driver).key_down(Keys.CONTROL).send_keys("k").key_up(Keys.CONTROL).perform()
    until(driver, "the palette opens", lambda: has(driver, "#palette[open]"))
    press(driver, "saved the", Keys.ENTER)
    until(driver, "and leads to a saved statement", lambda: parse_qs(urlsplit(driver.current_url).query).get("q") == ["SELECT 1 AS one"])
    asked = driver.execute_script("return performance.getEntriesByType('resource').map(e => decodeURIComponent(e.name))")
    assert not any("<i>one</i>" in url for url in asked), f"a name was sent: {asked}"


def forgets(driver):
    """What somebody else wrote there is nothing; no more than fifty are kept; one button forgets all."""
    until(driver, "the editor is there", lambda: has(driver, ".editor"))
    full = {"recent": [{"sql": f"SELECT {n}", "at": 0} for n in range(70)] + [None, 7, {"sql": 9}], "saved": [{"sql": "SELECT 1"}, {"name": "x"}, "y"]}
    for broken in ("{", "7", '"x"', "null", '{"recent": 3, "saved": {}}', json.dumps(full)):
        driver.execute_script("localStorage.setItem(arguments[0], arguments[1])", KEY, broken)
        opened(driver, sql("SELECT 5 AS five"))
        assert stored(driver)["recent"][0]["sql"] == "SELECT 5 AS five", broken
    assert len(stored(driver)["recent"]) == 50 and stored(driver)["saved"] == []
    driver.find_element(By.CSS_SELECTOR, "button.kept").click()
    forget = driver.find_element(By.CSS_SELECTOR, "#kept button.forget")
    forget.click()
    assert len(stored(driver)["recent"]) == 50, "one press is not enough"
    forget.click()
    until(driver, "all is forgotten", lambda: stored(driver) == {"recent": [], "saved": []})
    quiet_console(driver, "of what was kept")
    # No room: what is run is shown all the same.
    driver.execute_script("localStorage.clear(); localStorage.setItem('x', 'x'.repeat(5242000));")
    opened(driver, sql("SELECT 6 AS six"))
    assert "served by" in text(driver)
    quiet_console(driver, "of a storage that is full")
    driver.execute_script("localStorage.clear()")
    print("holds: fifty statements are kept, broken ones are none, and all are forgotten at once")


# ---- pictures


def pixels(data):
    """Width, height, and rows of pixels of a PNG as browsers write it: 8 bits a channel, not interlaced (RFC 2083)."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n", "no PNG"
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colours, _, _, interlaced = struct.unpack(">IIBBBBB", body)
        elif kind == b"IDAT":
            packed += body
        at += 12 + length
    size = {2: 3, 6: 4}[colours]
    assert (depth, interlaced) == (8, 0)
    flat, line = zlib.decompress(packed), width * size
    rows, above = [], bytes(line)
    for y in range(height):
        start = y * (line + 1)
        above = unfiltered(flat[start], bytearray(flat[start + 1:start + 1 + line]), above, size)
        rows.append([bytes(above[x:x + 3]) for x in range(0, line, size)])
    return width, height, rows


def unfiltered(kind, row, above, size):
    for x in range(len(row)):
        left, up = (row[x - size] if x >= size else 0), above[x]
        corner = above[x - size] if x >= size else 0
        if kind == 1:
            row[x] = (row[x] + left) & 255
        elif kind == 2:
            row[x] = (row[x] + up) & 255
        elif kind == 3:
            row[x] = (row[x] + (left + up) // 2) & 255
        elif kind == 4:
            guess = left + up - corner
            nearest = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
            row[x] = (row[x] + nearest) & 255
    return row


def taken(driver, folder, button):
    """Presses a button and returns the file that comes of it."""
    for old in folder.iterdir():
        old.unlink()
    driver.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", button)
    button.click()
    done = lambda: [file for file in folder.iterdir() if file.suffix == ".png"]
    until(driver, "a picture is kept", done)
    return done()[0]


def charts_are_pictures(driver):
    folder = pathlib.Path(tempfile.mkdtemp())
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)})
    for theme, paper in (("light", b"\xff\xff\xff"), ("dark", b"\x15\x18\x1e")):
        themed(driver, theme)
        # Pages that stand still: a chart that is renewed is another element.
        for path, least in (("/latency?range=15m&live=off", 2), ("/power?range=15m&live=off", 1)):
            until(driver, f"{path} has its charts", lambda: (driver.get(BASE + path), len(has(driver, ".legend .save")) >= least)[1])
            hydrated(driver)
            items = driver.find_elements(By.CSS_SELECTOR, ".legend .save")
            assert len(items) == len(has(driver, "svg.chart")), f"{path} has {len(items)} charts to take away"
            for item in items[:least]:
                is_the_image(driver, taken(driver, folder, item.find_element(By.TAG_NAME, "button")), item, paper)
    themed(driver, "light")
    quiet_console(driver, "of pictures")
    driver.get(has(driver, ".legend .save a")[0].get_attribute("href"))
    paper = driver.execute_script("return getComputedStyle(document.querySelector('.paper')).fill")
    assert paper == "rgb(255, 255, 255)", f"an image opened by itself has no colours: its paper is {paper}"
    said = [line for line in complaints(driver) if "favicon" not in line]
    assert not said, f"an image opened by itself is against its policy: {said}"
    print("holds: an image opened by itself has its colours")


def is_the_image(driver, file, item, paper):
    """As large as the image twice over, on the theme's paper, with something on all of its parts: title, drawing, legend, foot."""
    link = item.find_element(By.TAG_NAME, "a").get_attribute("href")
    words = parse_qs(urlsplit(link).query)["chart"][0]
    svg = driver.execute_async_script("const done = arguments[1]; fetch(arguments[0]).then(a => a.text()).then(done)", link)
    wide, high = (int(svg.split(f'{side}="', 1)[1].split('"', 1)[0]) for side in ("width", "height"))
    width, height, rows = pixels(file.read_bytes())
    assert (width, height) == (2 * wide, 2 * high), f"{file.name} is {width} x {height}, the image {wide} x {high}"
    assert rows[2][2] == paper, f"{file.name} is on {rows[2][2].hex()}, not on {paper.hex()}"
    for part, (top, bottom) in {"title": (16, 34), "drawing": (70, high - 70), "foot": (high - 24, high - 4)}.items():
        inked = sum(pixel != paper for row in rows[2 * top:2 * bottom] for pixel in row)
        assert inked > 200, f"{file.name} has no {part}: {inked} pixels"
    assert len({pixel for row in rows for pixel in row}) > 12, f"{file.name} has hardly any colour"
    assert file.name.startswith(words.split()[0].lower()), f"{words} is called {file.name}"
    print(f"holds: {words!r} as {file.name}, {width} x {height}")


def main():
    driver = browser()
    try:
        if BUNDLE:
            is_dressed(driver)
            is_typed_into(driver)
            lets_go(driver)
            points_to_what_is_wrong(driver)
            keeps_statements(driver)
            charts_are_pictures(driver)
            does_without_wasm(driver)
        else:
            driver.get(sql("SELECT 1 AS one"))
            assert driver.find_element(By.ID, "q").is_displayed() and not driver.find_element(By.CSS_SELECTOR, "button.kept").is_displayed()
        print("holds: the workbench")
    finally:
        driver.quit()


main()
