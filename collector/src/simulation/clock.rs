//! Time that passes only when nobody has anything to do.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use service::clock::{Clock, Sleep};

/// When a simulation begins: 2100-01-01, nanoseconds since 1970-01-01 UTC. The Delta library forgets removals by the machine's clock,
/// so the machine must not be ahead.
const BEGINNING_NS: i64 = 4_102_444_800_000_000_000;
/// Simulated time after which a run is stuck.
const LONGEST: Duration = Duration::from_secs(24 * 3_600);

/// A clock that is moved on from one timer to the next.
#[derive(Clone, Default)]
pub(crate) struct SimClock {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    now: Duration,
    /// By how much the wall clock is wrong.
    wrong_ns: i64,
    timers: BTreeMap<(Duration, u64), Waker>,
    made: u64,
}

impl SimClock {
    /// Moves on to the next timer.
    ///
    /// # Panics
    /// If there is none, or the run takes too long: something waits for ever.
    pub(crate) fn advance(&self) {
        let mut state = self.state.lock();
        let Some((due, _)) = state.timers.keys().next().copied() else { panic!("everything waits, and for nothing") };
        assert!(due < LONGEST, "the simulation does not come to an end");
        state.now = state.now.max(due);
        while let Some(entry) = state.timers.first_entry().filter(|entry| entry.key().0 <= due) {
            entry.remove().wake();
        }
    }

    /// Sets the wall clock wrong; the monotonic one does not notice.
    pub(crate) fn jump(&self, wrong: Duration, ahead: bool) {
        let wrong_ns = i64::try_from(wrong.as_nanos()).unwrap();
        self.state.lock().wrong_ns = if ahead { wrong_ns } else { -wrong_ns };
    }

    /// Everything sleeps, and wakes up so much later.
    pub(crate) fn sleep_through(&self, time: Duration) {
        self.state.lock().now += time;
    }

    /// What a clock that is right shows, nanoseconds since 1970-01-01 UTC.
    pub(crate) fn true_ns(&self) -> u64 {
        u64::try_from(BEGINNING_NS + i64::try_from(self.state.lock().now.as_nanos()).unwrap()).unwrap()
    }
}

impl Clock for SimClock {
    fn now_ns(&self) -> i64 {
        i64::try_from(self.true_ns()).unwrap() + self.state.lock().wrong_ns
    }

    fn monotonic(&self) -> Duration {
        self.state.lock().now
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        let mut state = self.state.lock();
        state.made += 1;
        let key = (state.now + duration, state.made);
        Box::pin(Timer { state: Arc::clone(&self.state), key })
    }
}

struct Timer {
    state: Arc<Mutex<State>>,
    key: (Duration, u64),
}

impl Future for Timer {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.now >= self.key.0 {
            return Poll::Ready(());
        }
        state.timers.insert(self.key, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.state.lock().timers.remove(&self.key);
    }
}
