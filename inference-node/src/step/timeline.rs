//! The step thread's time: never goes back, and says when each step began and ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use service::clock::SharedClock;

use crate::engine::StepTime;

/// Back-to-back steps of a modelled engine keep the model's pace as long as the thread is not
/// further behind than this; beyond it the lost time is idle time.
const CATCH_UP_NS: i64 = 20_000_000;
/// A wall clock further behind ours than this was set back; it is not followed.
const SET_BACK_NS: i64 = 1_000_000_000;

/// The node's clock, for arrivals and steps alike: nanoseconds since 1970, the wall clock when it
/// was last looked at plus monotonic time since, so that differences within a call are true.
pub(crate) struct NodeClock {
    clock: SharedClock,
    offset_ns: AtomicI64,
}

impl NodeClock {
    pub(crate) fn new(clock: SharedClock) -> Self {
        let offset_ns = AtomicI64::new(clock.now_ns() - monotonic(&clock));
        Self { clock, offset_ns }
    }

    pub(crate) fn now_ns(&self) -> i64 {
        self.offset_ns.load(Ordering::Relaxed) + monotonic(&self.clock)
    }

    /// Looks at the wall clock.
    fn follow(&self) {
        let wall = self.clock.now_ns();
        if wall - self.now_ns() > -SET_BACK_NS {
            self.offset_ns.store(wall - monotonic(&self.clock), Ordering::Relaxed);
        }
    }
}

/// When steps begin and end.
pub(crate) struct Timeline {
    clock: Arc<NodeClock>,
    /// End of the last step, or the last instant known to be idle. No step begins before it.
    reached_ns: i64,
    /// Whether work was waiting at `reached_ns`.
    contiguous: bool,
    /// Time lost between back-to-back steps since the start.
    lag_ns: i64,
}

impl Timeline {
    pub(crate) fn new(clock: Arc<NodeClock>) -> Self {
        let reached_ns = clock.now_ns();
        Self { clock, reached_ns, contiguous: false, lag_ns: 0 }
    }

    /// Now, but never before the end of the last step.
    pub(crate) fn now_ns(&self) -> i64 {
        self.clock.now_ns().max(self.reached_ns)
    }

    pub(crate) fn reached_ns(&self) -> i64 {
        self.reached_ns
    }

    /// Monotonic time, to measure the host by.
    pub(crate) fn host_ns(&self) -> u64 {
        u64::try_from(monotonic(&self.clock.clock)).unwrap_or(0)
    }

    pub(crate) fn lag_ns(&self) -> i64 {
        self.lag_ns
    }

    /// Start of the next step, not before `earliest_ns`, at which its youngest work arrived.
    pub(crate) fn begin(&mut self, earliest_ns: i64) -> i64 {
        self.clock.follow();
        let now = self.now_ns();
        let behind = now - self.reached_ns;
        let start = match self.contiguous {
            true if behind <= CATCH_UP_NS => self.reached_ns,
            true => {
                self.lag_ns += behind;
                now
            }
            false => now,
        };
        start.max(earliest_ns.min(now))
    }

    /// End of a step that began at `start_ns`, and its device time in whole microseconds. Waits
    /// until a modelled step is over.
    pub(crate) fn finish(&mut self, start_ns: i64, time: StepTime) -> (i64, u64) {
        let (end, device_us) = match time {
            StepTime::Modelled { device, host, .. } => {
                let device_us = micros(device);
                let end = start_ns + nanos(device_us) + i64::try_from(host.as_nanos()).unwrap_or(0);
                self.wait_until(end);
                (end, device_us)
            }
            StepTime::Measured { device, .. } => {
                let end = self.clock.now_ns().max(start_ns);
                let passed_us = u64::try_from((end - start_ns) / 1_000).unwrap_or(0);
                (end, micros(device).min(passed_us))
            }
        };
        self.reached_ns = end;
        self.contiguous = true;
        (end, device_us)
    }

    /// The engine is known to have been idle from the last step until `at_ns`.
    pub(crate) fn idle_until(&mut self, at_ns: i64) {
        self.reached_ns = self.reached_ns.max(at_ns);
        self.contiguous = false;
        self.clock.follow();
    }

    /// Sleeping is how a modelled step takes its time; the thread is the engine's own.
    fn wait_until(&self, end_ns: i64) {
        loop {
            let left = end_ns - self.clock.now_ns();
            let Ok(left) = u64::try_from(left) else { return };
            if left == 0 {
                return;
            }
            std::thread::sleep(Duration::from_nanos(left));
        }
    }
}

fn monotonic(clock: &SharedClock) -> i64 {
    i64::try_from(clock.monotonic().as_nanos()).unwrap_or(i64::MAX)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn nanos(us: u64) -> i64 {
    i64::try_from(us.saturating_mul(1_000)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use service::clock::Clock;

    use super::*;

    /// A clock that moves only when told: wall and monotonic time apart.
    #[derive(Default)]
    struct Hands {
        wall_ns: AtomicI64,
        monotonic_ns: AtomicI64,
    }

    impl Hands {
        fn pass(&self, ns: i64) {
            self.wall_ns.fetch_add(ns, Ordering::Relaxed);
            self.monotonic_ns.fetch_add(ns, Ordering::Relaxed);
        }
    }

    impl Clock for Hands {
        fn now_ns(&self) -> i64 {
            self.wall_ns.load(Ordering::Relaxed)
        }

        fn monotonic(&self) -> Duration {
            Duration::from_nanos(self.monotonic_ns.load(Ordering::Relaxed) as u64)
        }
    }

    fn timeline() -> (Arc<Hands>, Timeline) {
        let hands = Arc::new(Hands::default());
        hands.wall_ns.store(1_000_000_000, Ordering::Relaxed);
        let clock = NodeClock::new(Arc::clone(&hands) as SharedClock);
        let timeline = Timeline::new(Arc::new(clock));
        (hands, timeline)
    }

    fn measured(us: u64) -> StepTime {
        StepTime::Measured { device: Duration::from_micros(us), load: None }
    }

    /// Whatever the clocks do, steps never overlap and device time fits between their ends, to the microsecond.
    #[test]
    fn steps_do_not_overlap() {
        use rand::{Rng, SeedableRng};
        let mut rng = rand::rngs::StdRng::seed_from_u64(9);
        let (hands, mut timeline) = timeline();
        let (mut last_end, mut device_total) = (timeline.reached_ns(), 0);
        let origin_us = last_end / 1_000;
        for _ in 0..5_000 {
            hands.pass(rng.random_range(0..3_000_000));
            if rng.random_bool(0.02) {
                hands.wall_ns.fetch_add(rng.random_range(-200_000_000..200_000_000), Ordering::Relaxed);
            }
            if rng.random_bool(0.2) {
                let now = timeline.now_ns();
                timeline.idle_until(now);
            }
            let start = timeline.begin(0);
            assert!(start >= last_end);
            let ran = rng.random_range(0..2_000_000);
            hands.pass(ran);
            let (end, device_us) = timeline.finish(start, measured(rng.random_range(0..5_000)));
            assert!(end >= start);
            device_total += device_us as i64;
            assert!(device_total <= end / 1_000 - origin_us, "idle time is negative");
            last_end = end;
        }
    }

    /// A step begins when its work arrives, not at the end of the step before.
    #[test]
    fn no_step_begins_before_its_work() {
        let (hands, mut timeline) = timeline();
        let start = timeline.begin(0);
        hands.pass(1_000_000);
        let (end, _) = timeline.finish(start, measured(10));
        hands.pass(5_000_000);
        assert_eq!(timeline.begin(end + 2_000_000), end + 2_000_000);
        assert_eq!(timeline.begin(0), end);
    }

    /// A thread that was held up does not pretend that it was not.
    #[test]
    fn long_delays_are_lag() {
        let (hands, mut timeline) = timeline();
        let start = timeline.begin(0);
        let (end, _) = timeline.finish(start, measured(0));
        hands.pass(300_000_000);
        assert_eq!(timeline.begin(0), end + 300_000_000);
        assert_eq!(timeline.lag_ns(), 300_000_000);
    }
}
