//! The brake: while the lake keeps up, no more is received than becomes rows. A body that is read back from the journal costs half
//! as much again, so a collector that acknowledges ahead of its rows ends up with fewer of them.
//!
//! It holds the line only as long as that helps. What the lake does not take, and what waits on disk after an outage, is no
//! reason to keep senders waiting: the journal is there for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::receive::admit::{Budget, Line};

/// A lane that takes nothing for so long, or rows of which none became a file, wait for the lake, not for their share of the CPUs.
pub(crate) const LAG: Duration = Duration::from_millis(500);
/// Bodies that became durable longer ago than this before they became rows, microseconds, waited for something else than CPUs.
const LATE_US: i64 = 2_000_000;

/// Holds the line while the rows' side has enough to do and gets on with it.
pub(crate) struct Brake {
    line: Line,
    /// Holds the durable bodies that wait to become rows.
    memory: Budget,
    late: AtomicBool,
    lake_lags: AtomicBool,
}

impl Brake {
    /// Nothing is known yet of what waits.
    pub(crate) fn new(line: Line, memory: Budget) -> Self {
        Self { line, memory, late: true.into(), lake_lags: false.into() }
    }

    /// Rows were made of a body that was received at `received_us`.
    pub(crate) fn made(&self, received_us: i64, now_us: i64) {
        self.late.store(now_us - received_us > LATE_US, Ordering::Relaxed);
    }

    /// What comes next is read back, whenever it was received.
    pub(crate) fn rewind(&self) {
        self.late.store(true, Ordering::Relaxed);
        self.lake_lags(false);
    }

    /// Whether gathering waits for the lake.
    pub(crate) fn lake_lags(&self, lags: bool) {
        self.lake_lags.store(lags, Ordering::Relaxed);
        self.set();
    }

    /// Looks at how things are and holds the line or lets it go on. Both sides may look at the same time, and the one that saw less
    /// may have the last word; the rows' side looks again within [`LAG`] whatever happens.
    pub(crate) fn set(&self) {
        let waits_in_vain = self.late.load(Ordering::Relaxed) || self.lake_lags.load(Ordering::Relaxed);
        self.line.hold(self.memory.is_half_taken() && !waits_in_vain);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn is_held(line: &Line) -> bool {
        line.enter(std::future::pending()).now_or_never().is_none()
    }

    /// Senders wait for rows while these are made of what was just received, and neither for the lake nor for an outage's backlog.
    #[test]
    fn it_holds_the_line_while_rows_keep_up_and_only_then() {
        let (line, memory) = (Line::new(1, 1 << 20), Budget::new(1 << 20));
        let brake = Brake::new(line.clone(), memory.clone());
        let half = memory.take(1 << 19);
        brake.set();
        assert!(!is_held(&line), "nothing became rows yet");
        brake.made(5_000_000, 5_100_000);
        brake.set();
        assert!(is_held(&line));
        brake.lake_lags(true);
        assert!(!is_held(&line), "the lake takes nothing");
        brake.lake_lags(false);
        assert!(is_held(&line));
        brake.made(5_000_000, 7_000_001);
        brake.set();
        assert!(!is_held(&line), "a backlog");
        brake.made(7_000_000, 7_100_000);
        brake.set();
        assert!(is_held(&line), "it is worked off");
        drop(half);
        brake.set();
        assert!(!is_held(&line), "there is memory again");
        let _half = memory.take(1 << 19);
        brake.set();
        assert!(is_held(&line));
        brake.rewind();
        assert!(!is_held(&line));
    }
}
