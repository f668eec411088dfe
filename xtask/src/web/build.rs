//! Builds a bundle: compiles, binds, names, compresses, lays out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::json;
use wasm_bindgen_cli_support::Bindgen;

use super::{glue, key, scripts};
use crate::cargo;

const TARGET: &str = "wasm32-unknown-unknown";

/// Builds the bundle unless it is there already, and makes it the current one.
pub(crate) fn bundle() -> Result<()> {
    let home = cargo::target_dir().join("web");
    let dir = home.join(key::fingerprint()?);
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
    // Flags meant for this machine's own compiler would break the other one; and were features united with those of the
    // server's crates, the islands would carry what only a server needs.
    let foreign = [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTC_WRAPPER",
        "CARGO_TARGET_DIR",
        "CARGO_BUILD_TARGET",
        "CARGO_RESOLVER_FEATURE_UNIFICATION",
        "CARGO_UNSTABLE_FEATURE_UNIFICATION",
    ];
    for name in foreign {
        command.env_remove(name);
    }
    println!("compiling the islands to WebAssembly: the first time takes some minutes");
    cargo::run(&mut command)?;
    let module = target_dir.join(TARGET).join("wasm-release/ui.wasm");
    key::covers(&module)?;
    Ok(module)
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
    let exports = glue::exports(&glue_text);
    let glue = rename_by_content(&part, "ui.js", "js")?;
    scripts::bundle(&part)?;
    let [editor, picture] = scripts::ENTRIES.map(|name| rename_by_content(&part, &format!("{name}.js"), "js"));
    let (editor, picture) = (editor?, picture?);
    fs::write(part.join("start.js"), glue::start(&glue, &module, &editor, &picture))
        .context("write the entry script")?;
    let entry = rename_by_content(&part, "start.js", "js")?;
    let mut bytes = 0;
    for name in [&module, &glue, &entry] {
        bytes += compress(&part.join(name))?;
    }
    let (editor_bytes, picture_bytes) = (compress(&part.join(&editor))?, compress(&part.join(&picture))?);
    println!(
        "{bytes} bytes over the wire (brotli), the editor of the SQL page {editor_bytes} more, PNG {picture_bytes}"
    );
    // The manifest comes last: a directory without one is no bundle.
    let manifest = json!({ "entry": entry, "glue": glue, "module": module, "exports": exports, "bytes": bytes,
        "editor": editor, "editor_bytes": editor_bytes, "picture": picture, "picture_bytes": picture_bytes });
    fs::write(part.join("manifest.json"), format!("{manifest:#}\n")).context("write the manifest")?;
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("remove {}", dir.display()))?;
    }
    fs::rename(&part, dir).with_context(|| format!("name {}", dir.display()))
}

/// Renames `x.ext` to `x-<hash of its content>.ext`, so that it can be cached for ever.
fn rename_by_content(dir: &Path, name: &str, extension: &str) -> Result<String> {
    let path = dir.join(name);
    let content = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
    let stem = name.split('.').next().unwrap_or(name);
    let renamed = format!("{stem}-{:016x}.{extension}", key::hash(0, &content));
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
