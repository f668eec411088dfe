//! What a bundle is known by: the content of all that it is made of.
#![cfg_attr(not(feature = "web"), allow(dead_code, reason = "without the feature only tests look at it"))]

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cargo;

/// What the bundle is made of. Pages that only the server renders are not among it.
const SOURCES: [&str; 11] = [
    "Cargo.lock",
    "Cargo.toml",
    "ui/Cargo.toml",
    "ui/editor",
    "ui/src/lib.rs",
    "ui/src/islands.rs",
    "ui/src/islands",
    "ui/src/times.rs",
    "ui/viz",
    "xtask/src/web.rs",
    "xtask/src/web",
];

/// A name for the content of all sources.
pub(super) fn fingerprint() -> Result<String> {
    let mut all = 0;
    for file in files()? {
        let content = fs::read(&file).with_context(|| format!("read {}", file.display()))?;
        let name = file.strip_prefix(cargo::root()).unwrap_or(&file);
        all = hash(all, name.as_os_str().as_encoded_bytes());
        all = hash(all, &content);
    }
    Ok(format!("{all:016x}"))
}

/// The files of all sources, in order.
fn files() -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for source in SOURCES {
        collect(&cargo::root().join(source), &mut files)?;
    }
    files.sort();
    Ok(files)
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

/// Refuses a module that was compiled from a file of ours that the key does not know: a change of that file would be
/// taken for no change. The compiler says beside the module what it read.
pub(super) fn covers(module: &Path) -> Result<()> {
    let told = module.with_extension("d");
    let text = fs::read_to_string(&told).with_context(|| format!("read {}", told.display()))?;
    let known = files()?;
    let read = read_by_the_compiler(&text);
    if let Some(missing) = read.iter().find(|path| path.starts_with(cargo::root()) && !known.contains(path)) {
        bail!("{} goes into the bundle and is not in its key: add it to SOURCES in {}", missing.display(), file!());
    }
    Ok(())
}

/// The files of a line `module: file file …`, in which a space of a name stands behind a backslash.
fn read_by_the_compiler(text: &str) -> Vec<PathBuf> {
    let files = text.lines().filter_map(|line| line.split_once(": ")).map(|(_, files)| files);
    let escaped = files.map(|files| files.replace("\\ ", "\0"));
    escaped
        .flat_map(|files| files.split_whitespace().map(|file| file.replace('\0', " ").into()).collect::<Vec<_>>())
        .collect()
}

/// FNV-1a over 64 bits, started from a hash before it: tells versions of a file apart, no more.
pub(super) fn hash(before: u64, bytes: &[u8]) -> u64 {
    let start = before ^ 0xcbf2_9ce4_8422_2325;
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_content_changes_the_name() {
        assert_ne!(hash(0, b"a"), hash(0, b"b"));
        assert_ne!(hash(hash(0, b"a"), b"b"), hash(hash(0, b"b"), b"a"));
    }

    /// Modules of `ui` that the browser's side has too are in the key, each with all that is below it. Those of the server are not.
    #[test]
    fn every_module_of_the_browsers_side_is_in_the_key() {
        let src = cargo::root().join("ui/src");
        let text = fs::read_to_string(src.join("lib.rs")).unwrap();
        let mut before = "";
        let (mut browsers, mut servers) = (Vec::new(), Vec::new());
        for line in text.lines() {
            let name = line.trim_start_matches("pub ").strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';'));
            if let Some(name) = name {
                let list = if before.contains("feature = \"ssr\"") { &mut servers } else { &mut browsers };
                list.push(name.to_owned());
            }
            before = line;
        }
        let known = files().unwrap();
        assert!(browsers.len() > 1 && servers.len() > 1, "{browsers:?} {servers:?}");
        for name in &browsers {
            let mut its = Vec::new();
            collect(&src.join(format!("{name}.rs")), &mut its).unwrap();
            if src.join(name).is_dir() {
                collect(&src.join(name), &mut its).unwrap();
            }
            for file in its {
                assert!(known.contains(&file), "{} is not in the key", file.display());
            }
        }
        assert!(!known.contains(&src.join("server.rs")), "a change of the server's side alone builds no bundle");
    }

    #[test]
    fn a_module_of_files_that_the_key_does_not_know_is_refused() {
        let module = std::env::temp_dir().join(format!("tokenwatt-key-{}.wasm", std::process::id()));
        let told = module.with_extension("d");
        let src = cargo::root().join("ui/src");
        let of = |name: &str| format!("{}: {} /usr/lib/core.rs\n", module.display(), src.join(name).display());
        fs::write(&told, of("times.rs")).unwrap();
        covers(&module).unwrap();
        fs::write(&told, of("server.rs")).unwrap();
        let refused = covers(&module).unwrap_err().to_string();
        assert!(refused.contains("ui/src/server.rs goes into the bundle and is not in its key"), "{refused}");
        fs::remove_file(&told).unwrap();
        assert!(covers(&module).is_err(), "without the compiler's word nothing is known");
    }

    #[test]
    fn what_the_compiler_read_is_told_with_its_spaces() {
        let text = "/t/ui.wasm: /a/ui/src/lib.rs /a\\ b/ui/src/times.rs\n";
        assert_eq!(
            read_by_the_compiler(text),
            [PathBuf::from("/a/ui/src/lib.rs"), PathBuf::from("/a b/ui/src/times.rs")]
        );
    }

    /// The editor's packages come from whichever registry npm is told to use, each with the hash of what it must be.
    #[test]
    fn the_lock_of_the_editors_packages_names_no_registry_and_hashes_each() {
        let path = cargo::root().join("ui/editor/package-lock.json");
        let lock: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let packages = lock["packages"].as_object().unwrap();
        let mut hashed = 0;
        for (name, package) in packages.iter().filter(|(name, _)| !name.is_empty()) {
            assert!(package.get("resolved").is_none(), "{name} names where it was found");
            assert!(
                package["integrity"].as_str().is_some_and(|hash| hash.starts_with("sha512-")),
                "{name} has no hash"
            );
            hashed += 1;
        }
        assert!(hashed > 8, "{hashed}");
        for (name, version) in packages[""]["dependencies"].as_object().unwrap() {
            let exact = version
                .as_str()
                .is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'));
            assert!(exact, "{name} is at no exact version: {version}");
        }
    }
}
