//! `fuzz`: random bytes against the readers of what comes from outside.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo;

/// What libFuzzer needs of the compiler: counters at every edge. Flags of stable Rust.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                        -Cllvm-args=-sanitizer-coverage-pc-table --cfg fuzzing";
/// Longest input; every fault that a longer one meets a short one meets too.
const BYTES_MAX: u32 = 8_192;
/// Memory of one run, MiB.
const MEMORY_MB_MAX: u32 = 2_048;

/// Builds a target and runs it for `--seconds N`, 60 by default; inputs found are kept under `fuzz/work`.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let (target, seconds) = match args {
        [target] => (target.as_str(), 60),
        [target, flag, seconds] if flag == "--seconds" => {
            (target.as_str(), seconds.parse::<u64>().context("--seconds takes a whole number")?)
        }
        _ => bail!("usage: cargo xtask fuzz <target> [--seconds N]; the targets are the files in fuzz/targets"),
    };
    let crate_dir = cargo::root().join("fuzz");
    if !crate_dir.join("targets").join(format!("{target}.rs")).is_file() {
        bail!("there is no fuzz/targets/{target}.rs");
    }
    let output = crate_dir.join("target");
    // With a target named, the flags are for what is fuzzed and not for build scripts.
    let host = host()?;
    let mut build = cargo::cargo(&["build", "--release", "--locked", "--target", &host, "--bin", target]);
    build.current_dir(&crate_dir).env("RUSTFLAGS", COVERAGE).env("CARGO_TARGET_DIR", &output);
    build.env_remove("CARGO_BUILD_BUILD_DIR");
    cargo::run(&mut build)?;
    let work = crate_dir.join("work").join(target);
    std::fs::create_dir_all(&work).with_context(|| format!("make {}", work.display()))?;
    let mut fuzz = Command::new(output.join(&host).join("release").join(target));
    fuzz.current_dir(&work).arg(&work).arg(corpus(target));
    fuzz.arg(format!("-max_total_time={seconds}")).arg(format!("-max_len={BYTES_MAX}"));
    fuzz.arg(format!("-rss_limit_mb={MEMORY_MB_MAX}")).arg("-timeout=20").arg("-print_final_stats=1");
    cargo::run(&mut fuzz)
}

/// The machine that rustc builds for when nothing is said.
fn host() -> Result<String> {
    let said = cargo::output(Command::new("rustc").arg("-vV"))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say what it builds for")?.to_owned())
}

/// Inputs that the repository keeps for a target.
fn corpus(target: &str) -> PathBuf {
    cargo::root().join("fuzz/corpus").join(target)
}
