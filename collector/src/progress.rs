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
        *self.shared.lock() = Shared { gathered: after, ..Shared::default() };
    }

    /// Frame `number` is in the buffers; `open` are the oldest frames that still have rows there.
    pub fn gathered(&self, number: u64, received_us: i64, open: impl Iterator<Item = (&'static str, Origin)>) {
        let mut shared = self.shared.lock();
        shared.gathered = number;
        shared.gathered_us = Some(received_us);
        for (table, origin) in open {
            shared.open.entry(table).or_insert(origin);
        }
    }

    /// A table's open buffer was closed.
    pub fn closed(&self, table: &'static str, origin: Origin) {
        let mut shared = self.shared.lock();
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
        progress.gathered(1, 10, [("tokens", origin(1))].into_iter());
        progress.gathered(2, 20, [("tokens", origin(1)), ("spans", origin(2))].into_iter());
        assert_eq!((progress.through(), progress.oldest_us(2)), (0, Some(1)));
        progress.closed("tokens", origin(1));
        assert_eq!(progress.through(), 0);
        progress.committed("tokens", origin(1));
        assert_eq!(progress.through(), 1);
        progress.closed("spans", origin(2));
        progress.committed("spans", origin(2));
        assert_eq!((progress.through(), progress.oldest_us(2)), (2, None));
        assert_eq!((progress.behind(5), progress.oldest_us(5)), (3, Some(20)));
        progress.restart(1);
        assert_eq!((progress.through(), progress.behind(5)), (1, 4));
    }
}
