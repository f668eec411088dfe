//! `fuzz`: random bytes against the readers of what comes from outside.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo;

/// What libFuzzer needs of the compiler: counters at every edge, and what is compared. Flags of stable Rust.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                        -Cllvm-args=-sanitizer-coverage-pc-table \
                        -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing";
/// Longest input; every fault that a longer one meets a short one meets too.
const BYTES_MAX: u32 = 8_192;
/// Longest input that the repository keeps.
const KEPT_BYTES_MAX: u32 = 1_024;
/// Memory of one run, MiB.
const MEMORY_MB_MAX: u32 = 2_048;
/// Longest time of one input, seconds.
const INPUT_S_MAX: u32 = 20;

const USAGE: &str =
    "usage: cargo xtask fuzz [TARGET] [--seconds N] [--keep]; the targets are the files in fuzz/targets";

struct Options {
    targets: Vec<String>,
    seconds: u64,
    keep: bool,
}

/// Builds a target, or all of them, and runs each for `--seconds N`, 60 by default. Inputs found stay under `fuzz/work`; with
/// `--keep`, those that reach code that the inputs of `fuzz/corpus` do not reach are added there.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let crate_dir = cargo::root().join("fuzz");
    let options = options(args, &targets(&crate_dir)?)?;
    let programs = build(&crate_dir, &options.targets)?;
    for (target, program) in options.targets.iter().zip(programs) {
        let (work, corpus) = (crate_dir.join("work").join(target), crate_dir.join("corpus").join(target));
        for dir in [&work, &corpus] {
            std::fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
        }
        let mut fuzz = Command::new(&program);
        // What made it fail is written to where it runs.
        fuzz.current_dir(crate_dir.join("work")).arg(&work).arg(&corpus).arg(format!("-artifact_prefix={target}-"));
        fuzz.arg(format!("-max_total_time={}", options.seconds)).arg(format!("-max_len={BYTES_MAX}"));
        fuzz.arg(format!("-rss_limit_mb={MEMORY_MB_MAX}")).arg(format!("-timeout={INPUT_S_MAX}"));
        cargo::run(fuzz.arg("-print_final_stats=1"))?;
        if options.keep {
            let mut keep = Command::new(&program);
            // By edges reached and not by how often: else an input would be kept for each power of two of every loop.
            keep.args(["-merge=1", "-use_counters=0"]).arg(format!("-max_len={KEPT_BYTES_MAX}"));
            cargo::run(keep.current_dir(&crate_dir).arg(&corpus).arg(&work))?;
        }
    }
    Ok(())
}

fn options(args: &[String], known: &[String]) -> Result<Options> {
    let mut options = Options { targets: Vec::new(), seconds: 60, keep: false };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--seconds" => {
                let seconds = args.next().context(USAGE)?;
                options.seconds = seconds.parse().context("--seconds takes a whole number")?;
            }
            "--keep" => options.keep = true,
            target if known.iter().any(|known| known == target) => options.targets.push(target.to_owned()),
            other => bail!("`{other}` is none of the targets ({})\n{USAGE}", known.join(", ")),
        }
    }
    if options.targets.is_empty() {
        options.targets = known.to_vec();
    }
    Ok(options)
}

/// Names of all targets, in order.
fn targets(crate_dir: &Path) -> Result<Vec<String>> {
    let dir = crate_dir.join("targets");
    let entries = std::fs::read_dir(&dir).with_context(|| format!("list {}", dir.display()))?;
    let mut targets = Vec::new();
    for entry in entries {
        let name = entry?.file_name().into_string().ok();
        targets.extend(name.and_then(|name| Some(name.strip_suffix(".rs")?.to_owned())));
    }
    targets.sort();
    Ok(targets)
}

/// Builds the targets and returns their programs.
fn build(crate_dir: &Path, targets: &[String]) -> Result<Vec<PathBuf>> {
    // Apart from all other output: every dependency is compiled with other flags.
    let output = cargo::target_dir().join("fuzz");
    // With a machine named, the flags are for what is fuzzed and not for build scripts.
    let host = host()?;
    let mut build = cargo::cargo(&["build", "--release", "--locked", "--target", &host]);
    for target in targets {
        build.args(["--bin", target]);
    }
    build.current_dir(crate_dir).env("RUSTFLAGS", COVERAGE).env("CARGO_TARGET_DIR", &output);
    build.env_remove("CARGO_BUILD_BUILD_DIR");
    cargo::run(&mut build)?;
    Ok(targets.iter().map(|target| output.join(&host).join("release").join(target)).collect())
}

/// The machine that rustc builds for when nothing is said.
fn host() -> Result<String> {
    let said = cargo::output(Command::new("rustc").arg("-vV"))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say what it builds for")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Options> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        options(&args, &["json".to_owned(), "otlp".to_owned()])
    }

    #[test]
    fn without_a_target_all_are_run() {
        let options = parsed(&["--seconds", "600"]).unwrap();
        assert_eq!((options.targets.len(), options.seconds, options.keep), (2, 600, false));
        assert_eq!(parsed(&["otlp", "--keep"]).unwrap().targets, ["otlp"]);
        let error = parsed(&["otpl"]).err().unwrap().to_string();
        assert!(error.contains("json, otlp"), "{error}");
    }

    #[test]
    fn every_target_is_a_binary_of_its_crate() {
        let crate_dir = cargo::root().join("fuzz");
        let manifest = std::fs::read_to_string(crate_dir.join("Cargo.toml")).unwrap();
        for target in targets(&crate_dir).unwrap() {
            assert!(manifest.contains(&format!("path = \"targets/{target}.rs\"")), "{target}");
            let seeds = std::fs::read_dir(crate_dir.join("corpus").join(&target)).unwrap();
            assert!(seeds.count() > 0, "{target} has no inputs to start from");
        }
    }
}
