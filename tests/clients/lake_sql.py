"""SQL over HTTP for the test clients: one question, rows as dicts."""
import json
import time
import urllib.request


def rows(base, sql, **params):
    """Rows of a statement, each a dict by column name."""
    body = json.dumps({"sql": sql, "params": params, "max_rows": 100_000}).encode()
    request = urllib.request.Request(
        base + "/api/v1/sql", data=body, headers={"content-type": "application/json", "accept": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer = json.load(answer)
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{sql}\nanswered {error.code}: {error.read().decode(errors='replace')}")
    assert not answer.get("truncated"), f"cut: {sql}"
    names = [column["name"] for column in answer["columns"]]
    return [dict(zip(names, row)) for row in answer["rows"]]


def until(base, sql, wanted, patience_s=90, **params):
    """Asks until there are `wanted` rows; a deadline ends the wait, no result depends on how long it took."""
    deadline = time.monotonic() + patience_s
    while True:
        found = rows(base, sql, **params)
        if len(found) >= wanted:
            assert len(found) == wanted, f"{len(found)} rows, {wanted} expected: {sql}"
            return found
        if time.monotonic() > deadline:
            raise SystemExit(f"{len(found)} rows after {patience_s} s, {wanted} expected: {sql}")
        time.sleep(0.2)
