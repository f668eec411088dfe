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

/// The entry script.
pub(super) fn start(glue: &str, module: &str) -> String {
    format!(
        "import init, * as ui from \"./{glue}\";\n\
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
}
