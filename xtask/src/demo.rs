//! `demo`, `bench` and `s3`: build what a person wants to look at, then become it.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{cargo, install};

/// Installs what is missing, builds the web bundle and the binary, and runs `tokenwatt demo` with the
/// remaining arguments. `--release` builds for speed.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let (release, rest) = split(args);
    install::for_demo()?;
    web_bundle()?;
    let binary = build(release)?;
    become_command(Command::new(binary).arg("demo").args(rest))
}

/// `tokenwatt bench`, always built for speed: figures of a dev build would tell nothing.
pub(crate) fn bench(args: &[String]) -> Result<()> {
    let (_, rest) = split(args);
    let binary = build(true)?;
    become_command(Command::new(binary).arg("bench").args(rest))
}

/// The S3 endpoint of the tests, for benchmarks; in the dev profile, since what it costs is no figure of ours.
pub(crate) fn s3(args: &[String]) -> Result<()> {
    let binary = build(false)?;
    become_command(Command::new(binary.with_file_name("examples").join("s3")).args(args))
}

/// Builds the web bundle in a second process that has wasm-bindgen linked in.
pub(crate) fn web_bundle() -> Result<()> {
    install::for_web()?;
    cargo::run(&mut cargo::cargo(&["run", "--quiet", "--package", "xtask", "--features", "web", "--", "web"]))
}

fn split(args: &[String]) -> (bool, Vec<&String>) {
    let release = args.iter().any(|arg| arg == "--release");
    (release, args.iter().filter(|arg| !matches!(arg.as_str(), "--release" | "--")).collect())
}

/// Builds the binary and returns its path.
///
/// Cargo unites the features of what it builds together. The dev build therefore asks for all targets, as the tests do:
/// else each of some 700 dependencies would be compiled once for `demo` and once more for `test`.
pub(crate) fn build(release: bool) -> Result<PathBuf> {
    let args: &[&str] = if release {
        &["build", "--release", "--package", "tokenwatt"]
    } else {
        &["build", "--workspace", "--all-targets"]
    };
    cargo::run(&mut cargo::cargo(args))?;
    let profile = if release { "release" } else { "debug" };
    Ok(cargo::target_dir().join(profile).join("tokenwatt"))
}

/// Replaces this process, so that signals and the exit code are the product's own.
fn become_command(command: &mut Command) -> Result<()> {
    Err(command.exec()).with_context(|| format!("start {}", command.get_program().to_string_lossy()))
}
