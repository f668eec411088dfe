//! Signals of the operating system that end the process.

use crate::error::{Error, Result};

/// Waits for Ctrl-C or SIGTERM and returns its name.
///
/// # Errors
/// `Internal` when the process cannot listen for signals.
///
/// # Cancel safety
/// Cancel safe; a signal that arrives between two calls of this function is not kept.
pub async fn stop() -> Result<&'static str> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .map_err(|error| Error::internal("listen for SIGTERM").with_source(error))?;
    tokio::select! {
        interrupt = tokio::signal::ctrl_c() => {
            interrupt.map_err(|error| Error::internal("listen for Ctrl-C").with_source(error))?;
            Ok("SIGINT")
        }
        _ = terminate.recv() => Ok("SIGTERM"),
    }
}
