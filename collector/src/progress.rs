//! How far rows are committed: what decides where the journal may be cut.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::batch::tables::Origin;

/// Progress of all tables.
#[derive(Default)]
pub struct Progress {
    shared: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    /// How often everything began again. Rows of an earlier pass may still be on their way in its thread, and count no more.
    pass: u64,
    /// Last frame whose rows are in the buffers.
    gathered: u64,
    /// When its body was received, microseconds since 1970-01-01 UTC.
    gathered_us: Option<i64>,
    /// Oldest frame in the open buffer of each table.
    open: BTreeMap<&'static str, Origin>,
    /// Oldest frame of each closed and not yet committed buffer.
    closed: Vec<(&'static str, Origin)>,
}

impl Progress {
    /// Everything begins again after frame `after`: what was in buffers is gone.
    pub fn restart(&self, after: u64) {
        let mut shared = self.shared.lock();
        *shared = Shared { pass: shared.pass + 1, gathered: after, ..Shared::default() };
    }

    /// The pass that [`Progress::restart`] began last.
    pub fn pass(&self) -> u64 {
        self.shared.lock().pass
    }

    /// Frame `number` is in the buffers of a pass; `open` are the oldest frames that still have rows there.
    pub fn gathered(
        &self,
        pass: u64,
        number: u64,
        received_us: i64,
        open: impl Iterator<Item = (&'static str, Origin)>,
    ) {
        let mut shared = self.shared.lock();
        if shared.pass != pass {
            return;
        }
        shared.gathered = number;
        shared.gathered_us = Some(received_us);
        for (table, origin) in open {
            shared.open.entry(table).or_insert(origin);
        }
    }

    /// A table's open buffer of a pass was closed.
    pub fn closed(&self, pass: u64, table: &'static str, origin: Origin) {
        let mut shared = self.shared.lock();
        if shared.pass != pass {
            return;
        }
        shared.open.remove(table);
        shared.closed.push((table, origin));
    }

    /// The rows of a closed buffer are committed.
    pub fn committed(&self, table: &'static str, origin: Origin) {
        let mut shared = self.shared.lock();
        if let Some(place) = shared.closed.iter().position(|known| *known == (table, origin)) {
            shared.closed.remove(place);
        }
    }

    /// The last frame all of whose rows are committed.
    pub fn through(&self) -> u64 {
        let shared = self.shared.lock();
        shared.oldest().map_or(shared.gathered, |origin| origin.frame - 1)
    }

    /// When the oldest body was received whose rows are not committed, microseconds since 1970-01-01 UTC. `last` is the
    /// journal's last frame: while some are not in the buffers yet, they are at least as young as the last one that is.
    pub fn oldest_us(&self, last: u64) -> Option<i64> {
        let shared = self.shared.lock();
        match shared.oldest() {
            Some(origin) => Some(origin.received_us),
            None if last > shared.gathered => shared.gathered_us,
            None => None,
        }
    }

    /// Frames up to the journal's `last` that are not in the buffers yet.
    pub fn behind(&self, last: u64) -> u64 {
        last.saturating_sub(self.shared.lock().gathered)
    }

    /// The same for one table.
    pub fn oldest_of_us(&self, table: &str) -> Option<i64> {
        let shared = self.shared.lock();
        let closed = shared.closed.iter().filter(|(name, _)| *name == table).map(|(_, origin)| *origin);
        let oldest = shared.open.get(table).copied().into_iter().chain(closed).min_by_key(|origin| origin.frame);
        oldest.map(|origin| origin.received_us)
    }
}

impl Shared {
    fn oldest(&self) -> Option<Origin> {
        let closed = self.closed.iter().map(|(_, origin)| *origin);
        self.open.values().copied().chain(closed).min_by_key(|origin| origin.frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn origin(frame: u64) -> Origin {
        Origin { frame, received_us: frame as i64 }
    }

    /// The journal may be cut before the oldest frame that any table still needs, wherever its rows are.
    #[test]
    fn the_oldest_uncommitted_frame_of_any_table_holds_the_journal() {
        let progress = Progress::default();
        progress.gathered(0, 1, 10, [("tokens", origin(1))].into_iter());
        progress.gathered(0, 2, 20, [("tokens", origin(1)), ("spans", origin(2))].into_iter());
        assert_eq!((progress.through(), progress.oldest_us(2)), (0, Some(1)));
        progress.closed(0, "tokens", origin(1));
        assert_eq!(progress.through(), 0);
        progress.committed("tokens", origin(1));
        assert_eq!(progress.through(), 1);
        progress.closed(0, "spans", origin(2));
        progress.committed("spans", origin(2));
        assert_eq!((progress.through(), progress.oldest_us(2)), (2, None));
        assert_eq!((progress.behind(5), progress.oldest_us(5)), (3, Some(20)));
        progress.restart(1);
        assert_eq!((progress.through(), progress.behind(5)), (1, 4));
    }

    /// What a thread of an earlier pass still reports does not move the mark to which the journal is cut.
    #[test]
    fn an_earlier_pass_counts_no_more() {
        let progress = Progress::default();
        let old = progress.pass();
        progress.gathered(old, 60, 1, [("tokens", origin(51))].into_iter());
        progress.restart(50);
        progress.gathered(old, 90, 2, [("tokens", origin(90))].into_iter());
        progress.closed(old, "tokens", origin(90));
        assert_eq!((progress.through(), progress.behind(90)), (50, 40));
        progress.gathered(progress.pass(), 51, 3, [("tokens", origin(51))].into_iter());
        assert_eq!(progress.through(), 50);
    }
}
