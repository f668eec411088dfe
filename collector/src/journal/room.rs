//! How much the journal may still take: a budget of its own, and what the disk has left.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use service::error::{Error, Kind, Result};

use super::RETRY_AFTER;

/// The journal's room. Bodies are refused before they are read once it is used up; it grows again by itself as rows are
/// committed.
#[derive(Debug)]
pub struct Room {
    /// Bytes the journal may take.
    bytes_max: u64,
    /// Bytes the disk must keep free.
    free_min: u64,
    used: AtomicU64,
    free: AtomicU64,
    /// Whether the journal's directory is no longer where it was.
    gone: AtomicBool,
}

impl Room {
    /// Room for `bytes_max` bytes on a disk that keeps `free_min` bytes free.
    pub fn new(bytes_max: u64, free_min: u64) -> Self {
        Self {
            bytes_max,
            free_min,
            used: AtomicU64::new(0),
            free: AtomicU64::new(u64::MAX),
            gone: AtomicBool::new(false),
        }
    }

    /// Bytes the journal may take.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Whether a body may come in.
    ///
    /// # Errors
    /// `Unavailable`, with what is short.
    pub fn check(&self) -> Result<()> {
        if self.gone.load(Ordering::Relaxed) {
            return Err(gone());
        }
        let full = |what: String| {
            Error::new(Kind::Unavailable { retry_after: RETRY_AFTER }, what)
                .with_hint("see why the lake takes no rows, or give the journal more disk: `collector.journal_bytes`")
        };
        let (used, free) = (self.used.load(Ordering::Relaxed), self.free.load(Ordering::Relaxed));
        if used >= self.bytes_max {
            let most = self.bytes_max;
            return Err(full(format!(
                "the journal holds {used} bytes that the lake has not taken; its most is {most}"
            )));
        }
        if free < self.free_min {
            return Err(full(format!("the disk of the journal has {free} bytes left")));
        }
        Ok(())
    }

    /// Whether the journal's directory is gone.
    pub(super) fn set_gone(&self, gone: bool) {
        self.gone.store(gone, Ordering::Relaxed);
    }

    pub(super) fn used(&self, bytes: u64) {
        self.used.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn free(&self, bytes: u64) {
        self.free.store(bytes, Ordering::Relaxed);
    }
}

/// What is written to a directory that was taken away is lost when the process ends.
pub(super) fn gone() -> Error {
    let what = "the directory of the journal was removed or replaced while the collector ran";
    Error::new(Kind::Unavailable { retry_after: RETRY_AFTER }, what).with_hint(
        "see who removes files of the state directory, then start the collector again: it makes a new journal",
    )
}
