//! The script that a page loads, and what wasm-bindgen's glue offers it.
#![cfg_attr(not(feature = "web"), allow(dead_code, reason = "without the feature only tests look at it"))]

/// Names that the glue exports: functions as it declares them, and those of export lists.
pub(super) fn exports(glue: &str) -> Vec<String> {
    let declared = glue.lines().filter_map(|line| line.strip_prefix("export function ")?.split('(').next());
    let listed = glue.lines().filter_map(|line| line.strip_prefix("export {")?.split('}').next());
    let listed = listed.flat_map(|names| names.split(',')).filter_map(|name| name.rsplit(" as ").next());
    let mut names: Vec<String> =
        declared.chain(listed).map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The entry script. What few pages need is asked for where it is wanted, before WebAssembly is waited for: the editor where there is something to
/// type a statement into, the drawing of pictures when somebody asks for one. Whatever does not come (a newer version is being put in its
/// place, a proxy blocks it) leaves a page that works without, and says so. Statements that the browser keeps for a reader (`kept.js`) go when
/// the reader signs out, on whatever page.
pub(super) fn start(glue: &str, module: &str, editor: &str, picture: &str) -> String {
    START.replace("$glue", glue).replace("$module", module).replace("$editor", editor).replace("$picture", picture)
}

const START: &str = r#"const box = document.querySelector("textarea[data-editor]");
if (box) import("./$editor").then(editor => editor.mount(box)).catch(why => {
  document.querySelector(".editor")?.remove();
  box.hidden = false;
  box.after(Object.assign(document.createElement("p"), { className: "hint", id: "plain", role: "status",
    textContent: "The editor did not load: type the statement as plain text, or reload the page to try again." }));
  console.warn("the editor did not load:", why);
});
addEventListener("submit", ({ target }) => {
  if (!target.dataset?.of) return;
  try { localStorage.removeItem(`tokenwatt.sql.${target.dataset.of}`); } catch { }
});
addEventListener("click", ({ target }) => {
  const button = target.closest?.("[data-png]");
  if (button) import("./$picture").then(picture => picture.save(button), () => button.textContent = "Not drawn: reload the page");
});
let ui;
try {
  ui = await import("./$glue");
  await ui.default({ module_or_path: new URL("./$module", import.meta.url) });
} catch (why) {
  ui = null;
  console.warn("the page does without its islands:", why);
  const again = document.querySelector("head noscript")?.textContent.match(/content="(\d+)(?:;url=([^"]*))?"/);
  if (again) setTimeout(() => again[2] ? location.replace(again[2].replaceAll("&amp;", "&")) : location.reload(), again[1] * 1000);
}
ui?.hydrate();
if (ui) for (const island of document.querySelectorAll("leptos-island")) ui[island.dataset.component]?.(island);
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_are_read_off_both_spellings() {
        let glue = "let wasm;\nexport function hydrate() {\n}\nexport function Live_17(el) {\n}\nexport { initSync, __wbg_init as default };\n";
        assert_eq!(exports(glue), ["Live_17", "default", "hydrate", "initSync"]);
    }

    /// Without WebAssembly the editor, pictures and the way out are there all the same; without any of the files the rest is.
    #[test]
    fn scripts_of_single_pages_do_not_wait_for_the_islands() {
        let start = start("ui-1.js", "ui-2.wasm", "editor-3.js", "picture-4.js");
        let (before, after) = start.split_once("let ui;").unwrap();
        for name in ["import(\"./editor-3.js\")", "import(\"./picture-4.js\")", "addEventListener(\"submit\""] {
            assert!(before.contains(name), "{name}: {start}");
        }
        assert!(!before.contains("await ") && after.contains("./ui-1.js") && after.contains("./ui-2.wasm"), "{start}");
        assert!(!start.contains('$') || start.matches('$').count() == 1, "a name is missing: {start}");
    }
}
