//! `web`: the dashboard's islands as WebAssembly.
//!
//! ```text
//! cargo build (wasm32) ─► wasm-bindgen, as a library ─► names by content ─► brotli ─► manifest
//! ```
//!
//! A bundle is built once for its sources and kept under their fingerprint in `<target>/web`; `current` there names
//! the newest, which is where the server looks. wasm-bindgen comes from the lock file, so that its two halves cannot
//! drift apart, and nothing is downloaded.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::json;
use wasm_bindgen_cli_support::Bindgen;

use crate::cargo;

const TARGET: &str = "wasm32-unknown-unknown";

/// What the bundle is made of. Pages that only the server renders are not among it.
const SOURCES: [&str; 8] = [
    "Cargo.lock",
    "Cargo.toml",
    "ui/Cargo.toml",
    "ui/src/lib.rs",
    "ui/src/islands.rs",
    "ui/src/islands",
    "ui/viz",
    "xtask/src/web.rs",
];

/// Builds the bundle unless it is there already, and makes it the current one.
pub(crate) fn bundle() -> Result<()> {
    let home = cargo::target_dir().join("web");
    let dir = home.join(fingerprint()?);
    if dir.join("manifest.json").is_file() {
        println!("the web bundle is up to date: {}", dir.display());
    } else {
        let wasm = compile()?;
        assemble(&wasm, &dir)?;
        println!("built the web bundle: {}", dir.display());
    }
    point(&home.join("current"), &dir)
}

/// Compiles the islands and returns the module.
fn compile() -> Result<PathBuf> {
    let target_dir = cargo::target_dir().join("wasm");
    let mut command = compiler()?;
    command
        .args(["--locked", "--lib", "--package", "ui", "--no-default-features", "--features", "hydrate"])
        .args(["--profile", "wasm-release", "--target", TARGET, "--target-dir"])
        .arg(&target_dir)
        .current_dir(cargo::root());
    // Flags meant for this machine's own compiler would break the other one.
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER", "CARGO_TARGET_DIR", "CARGO_BUILD_TARGET"] {
        command.env_remove(name);
    }
    println!("compiling the islands to WebAssembly: the first time takes some minutes");
    cargo::run(&mut command)?;
    Ok(target_dir.join(TARGET).join("wasm-release/ui.wasm"))
}

/// rustup's compiler if it has the target, else Debian's, which builds the standard library first.
fn compiler() -> Result<Command> {
    let sysroot = cargo::output(Command::new("rustc").args(["--print", "sysroot"]).current_dir(cargo::root()))?;
    if Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET).is_dir() {
        let mut command = Command::new("cargo");
        command.arg("build");
        return Ok(command);
    }
    let linker = "/usr/bin/wasm-ld-22";
    for path in ["/usr/bin/cargo", "/usr/bin/rustc", linker] {
        if !Path::new(path).exists() {
            bail!(
                "{path} is missing: rustup has no {TARGET} here, and Debian's rustc-web, cargo-web, rust-web-src and lld-22 are not installed"
            );
        }
    }
    let mut command = Command::new("/usr/bin/cargo");
    command
        .args(["build", "-Zbuild-std=std,panic_abort", "-Zbuild-std-features=optimize_for_size"])
        // The library's own sources are built with features that only a bootstrap compiler accepts.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTC", "/usr/bin/rustc")
        .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker)
        .env_remove("RUSTUP_TOOLCHAIN");
    Ok(command)
}

/// Binds the module to JavaScript and lays out the directory that the server serves.
fn assemble(wasm: &Path, dir: &Path) -> Result<()> {
    let part = dir.with_extension(format!("part-{}", std::process::id()));
    if part.exists() {
        fs::remove_dir_all(&part).with_context(|| format!("remove {}", part.display()))?;
    }
    let mut bindgen = Bindgen::new();
    bindgen.input_path(wasm).out_name("ui").web(true)?.typescript(false);
    bindgen.remove_name_section(true).remove_producers_section(true);
    bindgen.generate(&part).with_context(|| format!("bind {}", wasm.display()))?;

    let module = rename_by_content(&part, "ui_bg.wasm", "wasm")?;
    let glue_text = fs::read_to_string(part.join("ui.js")).context("read the glue")?;
    let exports = exports(&glue_text);
    let glue = rename_by_content(&part, "ui.js", "js")?;
    let start = format!(
        "import init, * as ui from \"./{glue}\";\n\
         await init({{ module_or_path: new URL(\"./{module}\", import.meta.url) }});\n\
         ui.hydrate();\n\
         for (const island of document.querySelectorAll(\"leptos-island\")) ui[island.dataset.component]?.(island);\n"
    );
    fs::write(part.join("start.js"), start).context("write the entry script")?;
    let entry = rename_by_content(&part, "start.js", "js")?;
    let mut bytes = 0;
    for name in [&module, &glue, &entry] {
        bytes += compress(&part.join(name))?;
    }
    println!("{bytes} bytes over the wire (brotli)");
    // The manifest comes last: a directory without one is no bundle.
    let manifest = json!({ "entry": entry, "glue": glue, "module": module, "exports": exports, "bytes": bytes });
    fs::write(part.join("manifest.json"), format!("{manifest:#}\n")).context("write the manifest")?;
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("remove {}", dir.display()))?;
    }
    fs::rename(&part, dir).with_context(|| format!("name {}", dir.display()))
}

/// Names that the glue exports: functions as it declares them, and those of export lists.
fn exports(glue: &str) -> Vec<String> {
    let declared = glue.lines().filter_map(|line| line.strip_prefix("export function ")?.split('(').next());
    let listed = glue.lines().filter_map(|line| line.strip_prefix("export {")?.split('}').next());
    let listed = listed.flat_map(|names| names.split(',')).filter_map(|name| name.rsplit(" as ").next());
    let mut names: Vec<String> =
        declared.chain(listed).map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Renames `x.ext` to `x-<hash of its content>.ext`, so that it can be cached for ever.
fn rename_by_content(dir: &Path, name: &str, extension: &str) -> Result<String> {
    let path = dir.join(name);
    let content = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
    let stem = name.split('.').next().unwrap_or(name);
    let renamed = format!("{stem}-{:016x}.{extension}", hash(0, &content));
    fs::rename(&path, dir.join(&renamed)).with_context(|| format!("rename {}", path.display()))?;
    Ok(renamed)
}

/// Writes `<path>.br` beside a file and returns its size.
fn compress(path: &Path) -> Result<u64> {
    let content = fs::read(path).with_context(|| format!("read {}", path.display()))?;
    let mut packed = Vec::with_capacity(content.len() / 2);
    let params = brotli::enc::BrotliEncoderParams { quality: 11, size_hint: content.len(), ..Default::default() };
    brotli::BrotliCompress(&mut content.as_slice(), &mut packed, &params)
        .with_context(|| format!("compress {}", path.display()))?;
    let target = PathBuf::from(format!("{}.br", path.display()));
    fs::write(&target, &packed).with_context(|| format!("write {}", target.display()))?;
    Ok(packed.len() as u64)
}

/// Makes `link` name `dir`. Whoever reads it meanwhile sees the old bundle or the new one.
fn point(link: &Path, dir: &Path) -> Result<()> {
    let next = link.with_extension(format!("{}", std::process::id()));
    std::os::unix::fs::symlink(dir, &next).with_context(|| format!("link {}", next.display()))?;
    fs::rename(&next, link).with_context(|| format!("name {}", link.display()))
}

/// A name for the content of all sources.
fn fingerprint() -> Result<String> {
    let mut files = Vec::new();
    for source in SOURCES {
        collect(&cargo::root().join(source), &mut files)?;
    }
    files.sort();
    let mut all = 0;
    for file in &files {
        let content = fs::read(file).with_context(|| format!("read {}", file.display()))?;
        let name = file.strip_prefix(cargo::root()).unwrap_or(file);
        all = hash(all, name.as_os_str().as_encoded_bytes());
        all = hash(all, &content);
    }
    Ok(format!("{all:016x}"))
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_file() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path).with_context(|| format!("list {}", path.display()))? {
        collect(&entry?.path(), files)?;
    }
    Ok(())
}

/// FNV-1a over 64 bits, started from a hash before it: tells versions of a file apart, no more.
fn hash(before: u64, bytes: &[u8]) -> u64 {
    let start = before ^ 0xcbf2_9ce4_8422_2325;
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_are_read_off_both_spellings() {
        let glue = "let wasm;\nexport function hydrate() {\n}\nexport function Live_17(el) {\n}\nexport { initSync, __wbg_init as default };\n";
        assert_eq!(exports(glue), ["Live_17", "default", "hydrate", "initSync"]);
    }

    #[test]
    fn a_change_of_content_changes_the_name() {
        assert_ne!(hash(0, b"a"), hash(0, b"b"));
        assert_ne!(hash(hash(0, b"a"), b"b"), hash(hash(0, b"b"), b"a"));
    }
}
