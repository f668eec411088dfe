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
/// type a statement into, the drawing of pictures when somebody asks for one.
pub(super) fn start(glue: &str, module: &str, editor: &str, picture: &str) -> String {
    format!(
        "import init, * as ui from \"./{glue}\";\n\
         const box = document.querySelector(\"textarea[data-editor]\");\n\
         if (box) import(\"./{editor}\").then(editor => editor.mount(box));\n\
         addEventListener(\"click\", ({{ target }}) => {{\n\
         const button = target.closest?.(\"[data-png]\");\n\
         if (button) import(\"./{picture}\").then(picture => picture.save(button), () => button.textContent = \"Not drawn: reload the page\");\n\
         }});\n\
         await init({{ module_or_path: new URL(\"./{module}\", import.meta.url) }});\n\
         ui.hydrate();\n\
         for (const island of document.querySelectorAll(\"leptos-island\")) ui[island.dataset.component]?.(island);\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_are_read_off_both_spellings() {
        let glue = "let wasm;\nexport function hydrate() {\n}\nexport function Live_17(el) {\n}\nexport { initSync, __wbg_init as default };\n";
        assert_eq!(exports(glue), ["Live_17", "default", "hydrate", "initSync"]);
    }

    /// Without WebAssembly the editor and pictures are there all the same.
    #[test]
    fn scripts_of_single_pages_do_not_wait_for_the_islands() {
        let start = start("ui-1.js", "ui-2.wasm", "editor-3.js", "picture-4.js");
        let (before, after) = start.split_once("await init").unwrap();
        for name in ["./ui-1.js", "import(\"./editor-3.js\")", "import(\"./picture-4.js\")"] {
            assert!(before.contains(name), "{name}: {start}");
        }
        assert!(after.contains("./ui-2.wasm") && !after.contains("import("), "{start}");
    }
}
