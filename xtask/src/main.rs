//! The chores of the workspace: `demo`, `test`, `check`, `docs`, `fuzz`.
//!
//! The tasks use only the standard library and a few small parsers, so that they start in seconds. What
//! needs wasm-bindgen stands behind the feature `web`; the task `demo` runs that step as a second
//! process with the feature on.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a task talks to the person who started it")]

mod cargo;
mod check;
mod demo;
mod fuzz;
mod install;
mod peers;
mod test;
mod web;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <task>

  demo [--release] [-- ARGS]   install what is missing, build the web bundle and the binary, run `tokenwatt demo ARGS`
  test [FILTER]                install what the tests need, run every check and every test
  check                        dependency table, lock file, house rules
  docs                         write the generated pages under docs/ anew
  web                          build the web bundle alone
  fuzz [TARGET] [--seconds N]  random bytes against the targets of fuzz/targets; --keep adds what is new to fuzz/corpus
  s3 DIR [MS]                  serve DIR as S3 on loopback, each request MS milliseconds late
  bench ARGS                   build for speed and run `tokenwatt bench ARGS`
  peers [--seconds N] [--binary PATH] [--without otlp2parquet]   install other receivers, send them what `bench ingest` sends, and compare
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (task, rest) = match args.split_first() {
        Some((task, rest)) => (task.as_str(), rest),
        None => ("help", &[][..]),
    };
    let outcome = match task {
        "demo" => demo::run(rest),
        "test" => test::run(rest),
        "check" => check::run(),
        "docs" => test::write_documents(),
        "web" => web_bundle(),
        "fuzz" => fuzz::run(rest),
        "s3" => demo::s3(rest),
        "peers" => peers::run(rest),
        "bench" => demo::bench(rest),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {task}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(feature = "web")]
fn web_bundle() -> anyhow::Result<()> {
    web::bundle()
}

#[cfg(not(feature = "web"))]
fn web_bundle() -> anyhow::Result<()> {
    demo::web_bundle()
}
