//! The scripts that pages load when they are wanted: the editor of the SQL page, and charts as PNG.
//!
//! ```text
//! npm ci (packages by their hashes) ─► esbuild (one module each, minified)
//! ```
//!
//! Packages go into the cache directory under the hash of their lock file, never into the repository. The lock file names no place from which
//! a package is fetched (`npm install --omit-lockfile-registry-resolved` writes it so): npm asks the registry that it is configured with, and
//! takes nothing that differs from the hash. No script of a package is run. CodeMirror and what it stands on are MIT; their texts go along.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::key::hash;
use crate::cargo;

/// Entry points in `ui/editor`, by what they are called in the bundle.
pub(super) const ENTRIES: [&str; 2] = ["editor", "picture"];

/// Where licences of what was bundled are to be found, beside the scripts.
pub(super) const LICENCES: &str = "licences.txt";

/// Bundles each entry point into `dir` as `<name>.js`, and the licences of what is in them.
pub(super) fn bundle(dir: &Path) -> Result<()> {
    let packages = packages()?;
    let sources = cargo::root().join("ui/editor");
    for name in ENTRIES {
        let mut esbuild = Command::new(packages.join("node_modules/.bin/esbuild"));
        esbuild
            .arg(sources.join(format!("{name}.js")))
            .args(["--bundle", "--format=esm", "--minify", "--target=es2022", "--charset=utf8", "--log-level=warning"])
            .args(["--loader:.css=text", "--legal-comments=none"])
            .arg(format!("--banner:js=/*! {LICENCES} names what is in here */"))
            .arg(format!("--outfile={}", dir.join(format!("{name}.js")).display()))
            // The sources stand apart from the packages.
            .env("NODE_PATH", packages.join("node_modules"));
        cargo::run(&mut esbuild)?;
    }
    let file = dir.join(LICENCES);
    fs::write(&file, licences(&packages)?).with_context(|| format!("write {}", file.display()))
}

/// The directory of the packages of this lock file, fetched if they are not there.
fn packages() -> Result<PathBuf> {
    let sources = cargo::root().join("ui/editor");
    let lock = sources.join("package-lock.json");
    let content = fs::read(&lock).with_context(|| format!("read {}", lock.display()))?;
    let home = cargo::cache_dir()?.join("npm");
    let dir = home.join(format!("{:016x}", hash(0, &content)));
    if dir.is_dir() {
        return Ok(dir);
    }
    println!("fetching CodeMirror and esbuild from npm: the editor of the SQL page");
    let part = home.join(format!("part-{}", std::process::id()));
    fs::create_dir_all(&part).with_context(|| format!("create {}", part.display()))?;
    for name in ["package.json", "package-lock.json"] {
        fs::copy(sources.join(name), part.join(name)).with_context(|| format!("copy {name}"))?;
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(&part);
    cargo::run(&mut npm).context("npm fetches from the registry that `npm config get registry` names")?;
    // Another process may have been faster.
    match fs::rename(&part, &dir) {
        Err(_) if dir.is_dir() => fs::remove_dir_all(&part).with_context(|| format!("remove {}", part.display()))?,
        outcome => outcome.with_context(|| format!("name {}", dir.display()))?,
    }
    Ok(dir)
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    #[serde(default)]
    license: String,
}

/// Names, versions and licences of the packages whose code is in the scripts, as their licences ask. Tools are left out.
fn licences(packages: &Path) -> Result<String> {
    let lock = packages.join("package-lock.json");
    let lock: serde_json::Value =
        serde_json::from_slice(&fs::read(&lock).with_context(|| format!("read {}", lock.display()))?)?;
    let all =
        lock.get("packages").and_then(serde_json::Value::as_object).context("package-lock.json lists no packages")?;
    let is_tool = |package: &serde_json::Value| package.get("dev").is_some_and(|dev| dev == true);
    let mut text = String::new();
    for (path, _) in all.iter().filter(|(path, package)| !path.is_empty() && !is_tool(package)) {
        let dir = packages.join(path);
        let read = |name: &str| fs::read_to_string(dir.join(name)).with_context(|| format!("read {name} of {path}"));
        let package: Package = serde_json::from_str(&read("package.json")?)?;
        text.push_str(&format!(
            "{} {}, {}\n\n{}\n\n",
            package.name,
            package.version,
            package.license,
            read("LICENSE")?.trim()
        ));
    }
    Ok(text)
}
