//! Lock files: one version of the crates whose types pass from crate to crate, since a second would compile and then not fit; and a
//! lock of the fuzz targets that fits their manifests, since no other check builds them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};

use crate::cargo;

/// Names of which the lock file may hold one version; a name ending in `*` stands for its family.
const SINGLE: &[&str] = &[
    "arrow*",
    "parquet",
    "object_store",
    "datafusion*",
    "deltalake*",
    "tonic",
    "prost",
    "axum",
    "hyper",
    "opentelemetry*",
    "leptos*",
    "wasm-bindgen*",
];

/// Adds a fault for every single-version crate that stands in the lock file twice, and one for a stale lock of the fuzz targets.
pub(crate) fn check(faults: &mut Vec<String>) -> Result<()> {
    let path = cargo::root().join("Cargo.lock");
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    faults.extend(doubles(&text)?);
    faults.extend(stale(&cargo::root().join("fuzz")));
    Ok(())
}

/// What is wrong with the lock file of the workspace in this directory, if it would have to change.
fn stale(workspace: &Path) -> Option<String> {
    let mut metadata = cargo::cargo(&["metadata", "--locked", "--format-version", "1"]);
    let fault = cargo::output(metadata.current_dir(workspace)).err()?;
    let name = workspace.file_name().unwrap_or_default().display();
    Some(format!(
        "{name}/Cargo.lock does not fit its manifests; `cargo update --workspace` in {name} mends it: {fault}"
    ))
}

fn doubles(lock: &str) -> Result<Vec<String>> {
    let lock: toml::Table = toml::from_str(lock).context("parse Cargo.lock")?;
    let packages = lock.get("package").and_then(toml::Value::as_array).context("Cargo.lock has no packages")?;
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        let field = |name: &str| package.get(name).and_then(toml::Value::as_str).unwrap_or_default();
        versions.entry(field("name")).or_default().insert(field("version"));
    }
    let twice = versions.into_iter().filter(|(name, versions)| versions.len() > 1 && single(name));
    Ok(twice
        .map(|(name, versions)| {
            let versions: Vec<&str> = versions.into_iter().collect();
            format!("Cargo.lock holds {name} in versions {}", versions.join(" and "))
        })
        .collect())
}

fn single(name: &str) -> bool {
    SINGLE.iter().any(|rule| match rule.strip_suffix('*') {
        Some(family) => name.starts_with(family),
        None => name == *rule,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(entries: &[(&str, &str)]) -> String {
        entries
            .iter()
            .map(|(name, version)| format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n"))
            .collect()
    }

    #[test]
    fn a_second_version_of_a_family_member_is_found() -> Result<()> {
        let lock = lock(&[("arrow-array", "59.3.0"), ("arrow-array", "58.0.0"), ("syn", "1.0.0"), ("syn", "2.0.0")]);
        assert_eq!(doubles(&lock)?, ["Cargo.lock holds arrow-array in versions 58.0.0 and 59.3.0"]);
        Ok(())
    }

    /// A dependency that came after the lock file was written.
    #[test]
    fn a_lock_file_that_would_change_is_found() -> Result<()> {
        let workspace = std::env::temp_dir().join(format!("tokenwatt-lock-{}", std::process::id()));
        let package = |name: &str, more: &str| -> Result<()> {
            std::fs::create_dir_all(workspace.join(name).join("src"))?;
            std::fs::write(workspace.join(name).join("src/lib.rs"), "")?;
            let manifest = format!("[package]\nname = \"{name}\"\nversion = \"0.0.0\"\n{more}");
            Ok(std::fs::write(workspace.join(name).join("Cargo.toml"), manifest)?)
        };
        package("other", "")?;
        package("one", "[workspace]\n")?;
        cargo::output(cargo::cargo(&["generate-lockfile"]).current_dir(workspace.join("one")))?;
        assert_eq!(stale(&workspace.join("one")), None);
        package("one", "[workspace]\n[dependencies]\nother = { path = \"../other\" }\n")?;
        let fault = stale(&workspace.join("one")).context("the lock file lacks a dependency")?;
        assert!(fault.starts_with("one/Cargo.lock does not fit"), "{fault}");
        Ok(std::fs::remove_dir_all(&workspace)?)
    }

    #[test]
    fn hyper_is_a_name_and_not_a_family() -> Result<()> {
        let lock = lock(&[("hyper-rustls", "0.26.0"), ("hyper-rustls", "0.27.0")]);
        assert!(doubles(&lock)?.is_empty());
        Ok(())
    }
}
