//! Signals of the operating system that end the process.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::{Error, Result};

/// Ctrl-C and SIGTERM, heard from the moment of [`Stop::listen`] on; none between two waits is lost.
pub struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    /// Starts to listen; from now on the signals no longer end the process by themselves.
    ///
    /// # Errors
    /// `Internal` when the process cannot listen for signals.
    pub fn listen() -> Result<Self> {
        let listen =
            |kind, name| signal(kind).map_err(|error| Error::internal(format!("listen for {name}")).with_source(error));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt(), "SIGINT")?,
            terminate: listen(SignalKind::terminate(), "SIGTERM")?,
        })
    }

    /// Waits for the next signal and returns its name.
    ///
    /// # Cancel safety
    /// Cancel safe: a signal that arrives meanwhile is returned by the next call.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
