//! The process's own log: to standard error, so that standard output stays for answers.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::error::{Error, Result};

/// Starts logging at `level`: a level such as `info`, or directives such as `info,collector=debug`.
///
/// A second call in one process changes nothing, so that tests may all call it.
///
/// # Errors
/// `Invalid` when `level` cannot be read.
pub fn init(level: &str) -> Result<()> {
    let filter = EnvFilter::try_new(level).map_err(|error| {
        Error::invalid(format!("unknown log level `{level}`"))
            .with_hint("use error, warn, info, debug or trace, or directives such as info,collector=debug")
            .with_source(error)
    })?;
    let started = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init();
    // Already started: the first caller's choice stands.
    let _ = started;
    Ok(())
}
