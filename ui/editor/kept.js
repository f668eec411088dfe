// Statements that this browser keeps: the last ones that were run, and those that got a name. They never leave it.

const MOST = 50;
/** Longer statements are not kept: the browser gives an origin some 5 MB. */
const LONGEST = 20_000;

const isText = value => typeof value === "string" && value.length > 0 && value.length <= LONGEST;
const isEntry = entry => typeof entry === "object" && entry !== null && isText(entry.sql);
const list = (value, fits) => (Array.isArray(value) ? value.filter(fits).slice(0, MOST) : []);

/** What is kept under a key. What somebody else wrote there, or half of it, counts as nothing. */
function read(key) {
  try {
    const kept = JSON.parse(localStorage.getItem(key)) ?? {};
    return { recent: list(kept.recent, isEntry), saved: list(kept.saved, entry => isEntry(entry) && isText(entry.name)) };
  } catch {
    return { recent: [], saved: [] };
  }
}

function write(key, kept) {
  for (; ;) {
    try {
      return localStorage.setItem(key, JSON.stringify(kept));
    } catch {
      // No room, or none at all: the older half of what was run goes first.
      if (kept.recent.length === 0) return;
      kept.recent.length = Math.floor(kept.recent.length / 2);
    }
  }
}

/** What became of the statement of this page: nothing if it was not run, or if it is only looked at again. */
function outcome() {
  if (performance.getEntriesByType("navigation")[0]?.type === "back_forward") return null;
  const [result, refused] = [document.querySelector("[data-rows]"), document.querySelector("[data-refused]")];
  if (result) return { rows: +result.dataset.rows, ms: +result.dataset.ms, cut: "cut" in result.dataset };
  return refused ? { failed: refused.dataset.refused } : null;
}

const element = (name, fields = {}, ...children) => {
  const made = Object.assign(document.createElement(name), fields);
  made.append(...children);
  return made;
};
const link = sql => `/sql?${new URLSearchParams({ q: sql })}`;
const oneLine = sql => sql.replace(/\s+/g, " ").slice(0, 160);

/** When it was run, in the zone of the page, how long it took and what came. */
function said(entry) {
  const zone = new URLSearchParams(location.search).get("tz") ?? "UTC";
  const parts = [];
  try {
    const shown = { day: "2-digit", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZone: zone, timeZoneName: "short" };
    parts.push(new Intl.DateTimeFormat("en-GB", shown).format(entry.at));
  } catch {
    // A zone or a time that the browser does not know is left out.
  }
  if (entry.failed) parts.push(`refused: ${entry.failed}`);
  if (Number.isFinite(entry.ms)) parts.push(entry.ms < 1000 ? `${entry.ms.toFixed(0)} ms` : `${(entry.ms / 1000).toFixed(2)} s`);
  if (Number.isFinite(entry.rows)) parts.push(entry.cut ? `more than ${entry.rows} rows` : entry.rows === 1 ? "1 row" : `${entry.rows} rows`);
  return parts.join(" · ");
}

/** Notes what this page has run, fills list and palette, and returns what opens the list. `text` is what stands in the editor. */
export function keep(of, text) {
  const [button, dialog] = [document.querySelector("button.kept"), document.getElementById("kept")];
  if (!button || !dialog) return () => { };
  const key = `tokenwatt.sql.${of}`;
  const ran = document.querySelector("textarea[data-editor]").value;
  const became = outcome();
  if (became && isText(ran)) {
    const kept = read(key);
    kept.recent = [{ sql: ran, at: Date.now(), ...became }, ...kept.recent.filter(entry => entry.sql !== ran)].slice(0, MOST);
    write(key, kept);
  }
  const change = how => {
    const kept = read(key);
    how(kept);
    write(key, kept);
    show(key, dialog, change);
  };
  const open = () => {
    show(key, dialog, change);
    if (!dialog.open) dialog.showModal();
    dialog.querySelector("ul a")?.focus();
  };
  listen(dialog, change, () => read(key).saved, text);
  button.addEventListener("click", open);
  button.classList.add("on");
  fillPalette(read(key));
  return open;
}

function listen(dialog, change, saved, text) {
  const form = dialog.querySelector("form.name");
  const input = form.elements.namedItem("name");
  form.addEventListener("submit", event => {
    event.preventDefault();
    const [name, sql] = [input.value.trim(), text().trim()];
    const others = saved().filter(entry => entry.name !== name).length;
    const refusal = !isText(sql) ? (sql ? `Longer than ${LONGEST} letters: not kept` : "There is no statement to keep")
      : others >= MOST ? `${MOST} are kept already: forget one first` : "";
    form.querySelector("output").textContent = refusal;
    if (refusal || !isText(name)) return;
    change(kept => (kept.saved = [{ name, sql }, ...kept.saved.filter(entry => entry.name !== name)].slice(0, MOST)));
    form.reset();
  });
  const forget = dialog.querySelector("button.forget");
  forget.addEventListener("click", () => {
    if (!forget.dataset.sure) {
      forget.dataset.sure = "asked";
      forget.textContent = "Forget all: press again";
      return;
    }
    change(kept => ((kept.recent = []), (kept.saved = [])));
  });
}

/** Fills the lists. Statements are text here, whatever is in them. */
function show(key, dialog, change) {
  const { recent, saved } = read(key);
  const none = words => element("li", { className: "hint", textContent: words });
  const forget = dialog.querySelector("button.forget");
  forget.textContent = "Forget all";
  delete forget.dataset.sure;
  forget.disabled = recent.length + saved.length === 0;
  const savedItem = entry => {
    const away = element("button", { type: "button", textContent: "×", ariaLabel: `Forget ${entry.name}` });
    away.addEventListener("click", () => change(kept => (kept.saved = kept.saved.filter(other => other.name !== entry.name))));
    return element("li", {}, element("a", { href: link(entry.sql) }, element("b", { textContent: entry.name }), element("code", { textContent: oneLine(entry.sql) })), away);
  };
  const recentItem = entry =>
    element("li", {}, element("a", { href: link(entry.sql) }, element("code", { textContent: oneLine(entry.sql) }), element("small", { textContent: said(entry) })));
  dialog.querySelector("ul.saved").replaceChildren(...(saved.length ? saved.map(savedItem) : [none("Nothing yet: give the statement a name above.")]));
  dialog.querySelector("ul.recent").replaceChildren(...(recent.length ? recent.map(recentItem) : [none("Nothing was run yet.")]));
}

/** The palette of this page leads to them too. */
function fillPalette({ recent, saved }) {
  const entry = (kind, words, sql) => element("li", {}, element("a", { href: link(sql) }, element("span", { className: "note", textContent: kind }), words));
  document.querySelector("#palette ul")?.append(
    ...saved.map(({ name, sql }) => entry("saved", name, sql)),
    ...recent.map(({ sql }) => entry("recent", oneLine(sql), sql)));
}
