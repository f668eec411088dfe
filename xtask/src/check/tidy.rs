//! House rules on files: their size and names, what may not be left behind, and that every crate takes
//! part in the lints. The length of functions is clippy's to watch (`too_many_lines`).

use std::path::Path;

use anyhow::{Context, Result};

use crate::cargo;

/// Longest file, in lines before its tests.
const FILE_LINES_MAX: usize = 400;

/// File and folder names that say nothing of what is inside.
const BANNED_NAMES: &[&str] = &["utils", "util", "common", "helpers", "helper", "misc", "manager", "mod"];

/// Adds a fault for every file that breaks a rule.
pub(crate) fn check(faults: &mut Vec<String>) -> Result<()> {
    let mut git = std::process::Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard"]).current_dir(cargo::root());
    let listing = cargo::output(&mut git)?;
    for path in listing.lines().filter(|path| cargo::root().join(path).is_file()) {
        if path.ends_with(".rs") {
            let text = read(path)?;
            source(path, &text, faults);
        } else if path.ends_with("Cargo.toml") {
            manifest(path, &read(path)?, faults);
        } else if let Some(file) = path.strip_prefix("data/") {
            bundled(file, &read("data/NOTICE")?, faults);
        }
    }
    Ok(())
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(cargo::root().join(path)).with_context(|| format!("read {path}"))
}

fn source(path: &str, text: &str, faults: &mut Vec<String>) {
    for part in Path::new(path).with_extension("").iter() {
        if BANNED_NAMES.iter().any(|banned| part == *banned) {
            faults.push(format!("{path}: a name such as `{}` says nothing", part.to_string_lossy()));
        }
    }
    if text.starts_with("// @generated") || is_test(path) {
        return;
    }
    let lines = before_tests(text).lines().count();
    if lines > FILE_LINES_MAX {
        faults.push(format!("{path}: {lines} lines, {FILE_LINES_MAX} are allowed before the tests"));
    }
    let ignored = concat!("#[", "ignore");
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with(ignored) {
            faults.push(format!("{path}:{}: an ignored test proves nothing", number + 1));
        }
    }
}

fn is_test(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// The text up to the file's own test module.
fn before_tests(text: &str) -> &str {
    match text.find("#[cfg(test)]\nmod tests") {
        Some(at) => &text[..at],
        None => text,
    }
}

fn manifest(path: &str, text: &str, faults: &mut Vec<String>) {
    let inherits = text.contains("[lints]\nworkspace = true");
    if !inherits {
        faults.push(format!("{path}: a crate inherits the workspace's lints"));
    }
    if path == "Cargo.toml" {
        return;
    }
    for line in text.lines().filter(|line| line.contains("version = \"") && line.contains('{')) {
        faults.push(format!("{path}: versions stand in the root Cargo.toml alone: {}", line.trim()));
    }
}

fn bundled(file: &str, notice: &str, faults: &mut Vec<String>) {
    if file != "NOTICE" && !notice.contains(file) {
        faults.push(format!("data/{file}: data/NOTICE does not say where it comes from and under which licence"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(path: &str, text: &str) -> Vec<String> {
        let mut faults = Vec::new();
        source(path, text, &mut faults);
        faults
    }

    #[test]
    fn long_files_and_empty_names_are_faults() {
        let long = "\n".repeat(FILE_LINES_MAX + 1);
        assert_eq!(faults_of("lake/src/commit.rs", &long).len(), 1);
        assert_eq!(faults_of("lake/src/utils/time.rs", "").len(), 1);
        assert_eq!(faults_of("lake/src/commit/mod.rs", "").len(), 1);
    }

    #[test]
    fn tests_do_not_count_as_length() {
        let text = format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{{}}}\n", "\n".repeat(FILE_LINES_MAX));
        assert_eq!(faults_of("lake/src/commit.rs", &text), [""; 0]);
        assert_eq!(faults_of("lake/src/commit/tests.rs", &"\n".repeat(FILE_LINES_MAX + 1)), [""; 0]);
    }

    #[test]
    fn bundled_data_needs_its_notice() {
        let mut faults = Vec::new();
        bundled("prices.csv", "prices.csv  source, licence", &mut faults);
        assert!(faults.is_empty());
        bundled("watts.csv", "prices.csv  source, licence", &mut faults);
        assert_eq!(faults.len(), 1);
    }
}
