//! Which bodies were acknowledged lately, so that a retry gets its OK without being stored again.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

/// How long a body is remembered, microseconds: 15 minutes.
pub const REMEMBERED_US: i64 = 900_000_000;
/// Bodies remembered at once; about 100 MB. Beyond it the oldest are forgotten first.
const BODIES_MAX: usize = 2_000_000;

/// Bodies by digest.
#[derive(Default)]
pub struct Digests {
    shared: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    states: HashMap<u128, State>,
    /// Acknowledged bodies, oldest first.
    order: VecDeque<(i64, u128)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Storing,
    Stored,
}

/// What is known of a body that comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing: it is now being stored.
    New,
    /// An equal body is being stored right now; its fate is open.
    Storing,
    /// An equal body was acknowledged lately.
    Stored,
}

impl Digests {
    /// Looks a body up and, if it is new, notes that it is being stored.
    pub fn begin(&self, digest: u128, now_us: i64) -> Known {
        let mut shared = self.shared.lock();
        shared.forget(now_us);
        match shared.states.get(&digest) {
            Some(State::Storing) => Known::Storing,
            Some(State::Stored) => Known::Stored,
            None => {
                shared.states.insert(digest, State::Storing);
                Known::New
            }
        }
    }

    /// Whether a body is on disk, however long ago it came. Asked at the start, before old ones are forgotten.
    pub fn holds(&self, digest: u128) -> bool {
        self.shared.lock().states.get(&digest) == Some(&State::Stored)
    }

    /// The body is on disk.
    pub fn stored(&self, digest: u128, received_us: i64) {
        let mut shared = self.shared.lock();
        if shared.states.insert(digest, State::Stored) != Some(State::Stored) {
            shared.order.push_back((received_us, digest));
        }
    }

    /// The body was not stored after all.
    pub fn abandon(&self, digest: u128) {
        let mut shared = self.shared.lock();
        if shared.states.get(&digest) == Some(&State::Storing) {
            shared.states.remove(&digest);
        }
    }
}

impl Shared {
    fn forget(&mut self, now_us: i64) {
        while let Some((received_us, digest)) = self.order.front().copied() {
            if received_us >= now_us - REMEMBERED_US && self.order.len() <= BODIES_MAX {
                break;
            }
            self.order.pop_front();
            self.states.remove(&digest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body is new once, then being stored, then stored, and after 15 minutes new again.
    #[test]
    fn a_body_is_remembered_for_fifteen_minutes() {
        let digests = Digests::default();
        assert_eq!(digests.begin(7, 0), Known::New);
        assert_eq!(digests.begin(7, 0), Known::Storing);
        digests.stored(7, 0);
        assert_eq!(digests.begin(7, REMEMBERED_US), Known::Stored);
        assert_eq!(digests.begin(7, REMEMBERED_US + 1), Known::New);
    }

    /// A body that could not be stored is new when it comes again.
    #[test]
    fn an_abandoned_body_is_new_again() {
        let digests = Digests::default();
        assert_eq!(digests.begin(7, 0), Known::New);
        digests.abandon(7);
        assert_eq!(digests.begin(7, 1), Known::New);
    }
}
