//! Commands: how this workspace calls cargo, and how a command's failure is told.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use anyhow::{Context, Result, bail};

/// The root of the workspace, from this crate's own place in it. Cargo names the place anew each time it runs this program: clones
/// that share a target directory also share what was built in either of them.
pub(crate) fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let crate_dir = std::env::var_os("CARGO_MANIFEST_DIR");
        let crate_dir = crate_dir.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        crate_dir.parent().map_or(crate_dir.clone(), Path::to_path_buf)
    });
    &ROOT
}

/// `~/.cache/tokenwatt`: what clones of this repository share (build output, Python packages, models).
pub(crate) fn cache_dir() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os("XDG_CACHE_HOME") {
        return Ok(PathBuf::from(dir).join("tokenwatt"));
    }
    let home = std::env::var_os("HOME").context("HOME is not set, so there is no cache directory")?;
    Ok(PathBuf::from(home).join(".cache/tokenwatt"))
}

/// Where cargo puts its output: `CARGO_TARGET_DIR`, else the shared directory if somebody made one, else
/// `target/` of this clone.
pub(crate) fn target_dir() -> PathBuf {
    if let Some(dir) = std::env::var_os("CARGO_TARGET_DIR") {
        return PathBuf::from(dir);
    }
    match cache_dir().map(|cache| cache.join("target")) {
        Ok(shared) if shared.is_dir() => shared,
        _ => root().join("target"),
    }
}

/// A cargo command in the workspace root, linked by mold where mold is installed.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = if found("mold") {
        let mut mold = Command::new("mold");
        mold.arg("-run").arg(cargo);
        mold
    } else {
        Command::new(cargo)
    };
    command.args(args).current_dir(root()).env("CARGO_TARGET_DIR", target_dir());
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_of_this_package) {
            command.env_remove(name);
        }
    }
    command
}

/// Is it a variable by which `cargo run` tells this program about its own package?
///
/// Build scripts such as ring's watch them. Handed on, they would have ring and all above it compiled anew for each clone, and
/// whenever cargo is called by hand in between.
fn is_of_this_package(name: &str) -> bool {
    name.starts_with("CARGO_PKG_") || matches!(name, "CARGO_MANIFEST_DIR" | "CARGO_MANIFEST_PATH")
}

/// Runs a command to its end; its output goes straight to the terminal.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = describe(command);
    println!("$ {line}");
    let status = command.status().with_context(|| format!("start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// Runs a command and returns what it printed on stdout.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let line = describe(command);
    let output = command.output().with_context(|| format!("start `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Is there a program of this name on the path?
pub(crate) fn found(program: &str) -> bool {
    let Some(path) = std::env::var_os("PATH") else {
        return false;
    };
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

fn describe(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test runs under cargo, as the tasks do: cargo's word on this package is there, and is not handed on.
    #[test]
    fn cargo_is_not_told_about_the_package_of_the_tasks() {
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        let command = cargo(&["version"]);
        let removed = |wanted: &str| command.get_envs().any(|(name, value)| name == wanted && value.is_none());
        assert!(removed("CARGO_MANIFEST_DIR") && removed("CARGO_PKG_NAME"));
    }
}
