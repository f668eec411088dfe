//! The brake: while rows are made from memory, no more is received than becomes rows. A body that is read back from the journal
//! costs half as much again, so a collector that acknowledges ahead of its rows ends up with fewer of them.
//!
//! It holds the line only as long as that helps. What the lake does not take, and what waits on disk after an outage, is no
//! reason to keep senders waiting: the journal is there for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::receive::admit::{Budget, Line};

/// A lane that takes nothing for so long waits for the lake, not for its share of the CPUs.
pub(crate) const LAG: Duration = Duration::from_millis(500);

/// Holds the line while the rows' side has enough to do and keeps up with it.
pub(crate) struct Brake {
    line: Line,
    /// Holds the durable bodies that wait to become rows.
    memory: Budget,
    /// The newest frame that has to be read back.
    on_disk: AtomicU64,
    /// The frame that becomes rows next.
    next: AtomicU64,
    lake_lags: AtomicBool,
}

impl Brake {
    /// Everything up to frame `last` has to be read back.
    pub(crate) fn new(line: Line, memory: Budget, last: u64) -> Self {
        Self { line, memory, on_disk: last.into(), next: 1.into(), lake_lags: false.into() }
    }

    /// Frames up to this one are not in memory.
    pub(crate) fn on_disk(&self, frame: u64) {
        self.on_disk.fetch_max(frame, Ordering::Relaxed);
    }

    /// The rows' side goes on with this frame.
    pub(crate) fn next(&self, frame: u64) {
        self.next.store(frame, Ordering::Relaxed);
    }

    /// Whether gathering waits for the lake.
    pub(crate) fn lake_lags(&self, lags: bool) {
        self.lake_lags.store(lags, Ordering::Relaxed);
        self.set();
    }

    /// Looks at how things are and holds the line or lets it go on. The sides may look at the same time and the one that saw
    /// less may have the last word; the rows' side looks again within [`LAG`] whatever happens.
    pub(crate) fn set(&self) {
        let behind = self.next.load(Ordering::Relaxed) <= self.on_disk.load(Ordering::Relaxed);
        let lags = self.lake_lags.load(Ordering::Relaxed);
        self.line.hold(self.memory.is_half_taken() && !behind && !lags);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn is_held(line: &Line) -> bool {
        line.enter(std::future::pending()).now_or_never().is_none()
    }

    /// Senders wait for rows while these are made from memory, and neither for the lake nor for what waits on disk.
    #[test]
    fn it_holds_the_line_while_rows_keep_up_and_only_then() {
        let (line, memory) = (Line::new(1, 1 << 20), Budget::new(1 << 20));
        let brake = Brake::new(line.clone(), memory.clone(), 10);
        let half = memory.take(1 << 19);
        brake.set();
        assert!(!is_held(&line), "frames of before the start wait on disk");
        brake.next(11);
        brake.set();
        assert!(is_held(&line));
        brake.lake_lags(true);
        assert!(!is_held(&line), "the lake takes nothing");
        brake.lake_lags(false);
        assert!(is_held(&line));
        brake.on_disk(12);
        brake.set();
        assert!(!is_held(&line), "frame 12 found no memory");
        brake.next(13);
        brake.set();
        assert!(is_held(&line));
        drop(half);
        brake.set();
        assert!(!is_held(&line), "there is memory again");
    }
}
