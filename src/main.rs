//! Tokenwatt: what every token of an LLM fleet costs, in seconds, watts and dollars.
//!
//! ```text
//! cli ─► settings ─► commands ─► process (build ─► announce ─► run ─► drain)
//! ```
//!
//! One binary holds every role; a command is a composition of the services' own `build` and `run`.

mod cli;
mod settings;
mod places;

mod commands;

mod process;
mod site;
mod remote;

mod demo;
mod bench;
mod import;

mod failure;
mod print;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;
use crate::failure::{Failure, USAGE};

/// Bodies and rows are made on one thread and freed on another, all day long, which the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A closed pipe is the reader's choice; there is nobody left to tell.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    match start(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            print::failure(&failure);
            failure.exit_code()
        }
    }
}

fn start(cli: Cli) -> Result<(), Failure> {
    let runtime = tokio::runtime::Runtime::new().map_err(|error| {
        service::Error::internal("start the runtime's threads")
            .with_source(error)
            .with_hint("the system is out of threads")
    })?;
    let outcome = runtime.block_on(commands::run(cli));
    // Whatever still blocks a thread was named by the drain; the process does not wait for it again.
    runtime.shutdown_background();
    outcome
}
