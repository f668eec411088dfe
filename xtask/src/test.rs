//! `test`: everything that must hold before a change lands.

use anyhow::Result;

use crate::{cargo, check, demo, install};

/// Installs what the tests need and runs all of them; a filter narrows `cargo test` alone.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let clients = install::for_tests()?;
    cargo::run(&mut cargo::cargo(&["fmt", "--all", "--check"]))?;
    check::run()?;
    cargo::run(&mut cargo::cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))?;
    // The browser tests use the islands, too.
    demo::web_bundle()?;
    let mut tests = cargo::cargo(&["test", "--workspace", "--no-fail-fast"]);
    if !args.is_empty() {
        tests.arg("--").args(args);
    }
    tests.env("TOKENWATT_PYTHON", &clients.python).env("TOKENWATT_MODEL", &clients.model);
    tests.env("TOKENWATT_AXE", &clients.axe);
    cargo::run(&mut tests)?;
    if args.is_empty() { oracle(&clients) } else { Ok(()) }
}

/// The `cpu` engine against what llama.cpp answered. Ignored otherwise, since it needs the model that was fetched above.
fn oracle(clients: &install::Clients) -> Result<()> {
    // All packages, or cargo would choose other features and build anew.
    let mut test = cargo::cargo(&["test", "--workspace", "--lib", "--quiet", "--", "--ignored", ORACLE]);
    cargo::run(test.env("TOKENWATT_MODEL", &clients.model))
}

const ORACLE: &str = "engine::cpu::tests::oracle";

/// Writes the generated pages anew: the test that compares them writes instead.
pub(crate) fn write_documents() -> Result<()> {
    let mut command = cargo::cargo(&[
        "test",
        "--quiet",
        "--package",
        "tokenwatt",
        "--test",
        "tests",
        "--",
        "--exact",
        "documents::generated_pages_are_up_to_date",
    ]);
    cargo::run(command.env("UPDATE_DOCS", "1"))
}
