//! Which bodies were acknowledged lately, so that a retry gets its OK without being stored again.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use service::clock::SharedClock;

/// How long a body is remembered at least. Measured on the clock that never jumps; a restart begins anew.
pub const REMEMBERED: Duration = Duration::from_secs(900);
/// Bodies remembered at once; about 100 MB. Beyond it the oldest are forgotten first.
pub(super) const BODIES_MAX: usize = 2_000_000;

/// Bodies by digest.
pub struct Digests {
    clock: SharedClock,
    shared: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    states: HashMap<u128, State>,
    /// Acknowledged bodies, oldest first.
    order: VecDeque<(Duration, u128)>,
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
    /// Nothing known yet.
    pub fn new(clock: SharedClock) -> Self {
        Self { clock, shared: Mutex::default() }
    }

    /// Looks a body up and, if it is new, notes that it is being stored.
    pub fn begin(&self, digest: u128) -> Known {
        let now = self.clock.monotonic();
        let mut shared = self.shared.lock();
        shared.forget(now);
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
    pub fn stored(&self, digest: u128) {
        let now = self.clock.monotonic();
        let mut shared = self.shared.lock();
        if shared.states.insert(digest, State::Stored) != Some(State::Stored) {
            shared.order.push_back((now, digest));
        }
    }

    /// Forgets all bodies; none is being stored.
    pub(super) fn clear(&self) {
        *self.shared.lock() = Shared::default();
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
    fn forget(&mut self, now: Duration) {
        while let Some((stored, digest)) = self.order.front().copied() {
            if now.saturating_sub(stored) <= REMEMBERED && self.order.len() <= BODIES_MAX {
                break;
            }
            self.order.pop_front();
            self.states.remove(&digest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use service::clock::Clock;

    use super::*;

    /// Seconds, set by hand; the wall clock jumps about.
    #[derive(Default)]
    struct Hand(AtomicU64);

    impl Clock for Hand {
        fn now_ns(&self) -> i64 {
            (self.0.load(Ordering::Relaxed) as i64 % 7) * 3_600_000_000_000
        }

        fn monotonic(&self) -> Duration {
            Duration::from_secs(self.0.load(Ordering::Relaxed))
        }
    }

    /// A body is new once, then being stored, then stored, and after 15 minutes new again, whatever the wall clock shows.
    #[test]
    fn a_body_is_remembered_for_fifteen_minutes() {
        let clock = Arc::new(Hand::default());
        let digests = Digests::new(Arc::clone(&clock) as SharedClock);
        assert_eq!(digests.begin(7), Known::New);
        assert_eq!(digests.begin(7), Known::Storing);
        digests.stored(7);
        clock.0.store(900, Ordering::Relaxed);
        assert_eq!(digests.begin(7), Known::Stored);
        clock.0.store(901, Ordering::Relaxed);
        assert_eq!(digests.begin(7), Known::New);
    }

    /// A body that could not be stored is new when it comes again.
    #[test]
    fn an_abandoned_body_is_new_again() {
        let digests = Digests::new(service::clock::system());
        assert_eq!(digests.begin(7), Known::New);
        digests.abandon(7);
        assert_eq!(digests.begin(7), Known::New);
    }
}
