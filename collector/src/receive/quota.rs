//! Quotas: a token bucket per sender and unit. A body is let in while the bucket is not overdrawn and then pays in full, so
//! that its size need not be known beforehand and one larger than the burst still passes, after a wait.

use std::time::Duration;

use parking_lot::Mutex;
use service::clock::SharedClock;
use service::error::{Error, Kind, Result};

use super::identify::Writer;

/// A rate in some unit a second, with a burst.
pub(super) struct Meter {
    rate: f64,
    burst: f64,
    clock: SharedClock,
    state: Mutex<State>,
}

struct State {
    /// What may still be taken; below zero is debt.
    left: f64,
    /// When that was, on the monotonic clock.
    at: Duration,
}

impl Meter {
    /// A full bucket of `burst_s` seconds' worth of `rate` a second.
    pub(super) fn new(rate: u64, burst_s: u32, clock: SharedClock) -> Self {
        let rate = rate as f64;
        let burst = rate * f64::from(burst_s);
        let state = Mutex::new(State { left: burst, at: clock.monotonic() });
        Self { rate, burst, clock, state }
    }

    /// Whether more may be taken now.
    ///
    /// # Errors
    /// How long until it may.
    fn check(&self) -> std::result::Result<(), Duration> {
        let left = self.fill().left;
        if left > 0.0 {
            return Ok(());
        }
        // At least the time in which one unit comes in: debt of zero is paid, but the bucket is empty.
        let wait = (-left).max(1.0) / self.rate;
        Err(Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX))
    }

    /// Takes `amount`, into debt if need be.
    fn pay(&self, amount: u64) {
        self.fill().left -= amount as f64;
    }

    fn fill(&self) -> parking_lot::MutexGuard<'_, State> {
        let mut state = self.state.lock();
        let now = self.clock.monotonic();
        let passed = now.saturating_sub(state.at).as_secs_f64();
        state.left = (state.left + passed * self.rate).min(self.burst);
        state.at = now;
        state
    }
}

impl Writer {
    /// Whether this sender may send another body now; asked before the body is read.
    ///
    /// # Errors
    /// `Throttled`, with the time until it may.
    pub(super) fn admit(&self) -> Result<()> {
        for (unit, meter) in [("bytes", &self.bytes), ("items", &self.items)] {
            let Some(Err(wait)) = meter.as_ref().map(Meter::check) else { continue };
            self.throttled.inc();
            let message = format!("`{}` has sent more {unit} than its quota allows", self.principal.name);
            return Err(Error::new(Kind::Throttled { retry_after: wait }, message)
                .with_hint(format!("send slower, or raise `{unit}_per_s` of the principal")));
        }
        Ok(())
    }

    /// Charges a body that arrived, whatever becomes of it.
    pub(super) fn charge_bytes(&self, bytes: usize) {
        self.received_bytes.add(bytes as u64);
        if let Some(meter) = &self.bytes {
            meter.pay(bytes as u64);
        }
    }

    /// Charges items that were acknowledged, and counts those that were rejected.
    pub(super) fn charge_items(&self, accepted: u64, rejected: u64) {
        self.accepted_items.add(accepted);
        self.rejected_items.add(rejected);
        if let Some(meter) = &self.items {
            meter.pay(accepted);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use service::clock::Clock;

    use super::*;

    /// A clock that the test moves, in milliseconds.
    #[derive(Default)]
    struct Hand(AtomicU64);

    impl Clock for Hand {
        fn now_ns(&self) -> i64 {
            0
        }

        fn monotonic(&self) -> Duration {
            Duration::from_millis(self.0.load(Ordering::Relaxed))
        }
    }

    /// The burst passes at once, debt is waited off, and a pause fills no more than the burst.
    #[test]
    fn debt_is_waited_off() {
        let hand = Arc::new(Hand::default());
        let meter = Meter::new(100, 2, Arc::clone(&hand) as SharedClock);
        meter.check().unwrap();
        meter.pay(500);
        assert_eq!(meter.check(), Err(Duration::from_secs(3)));
        hand.0.store(2_000, Ordering::Relaxed);
        assert_eq!(meter.check(), Err(Duration::from_secs(1)));
        hand.0.store(3_000, Ordering::Relaxed);
        assert_eq!(meter.check(), Err(Duration::from_millis(10)), "an empty bucket");
        hand.0.store(3_010, Ordering::Relaxed);
        meter.check().unwrap();
        hand.0.store(1_000_000, Ordering::Relaxed);
        meter.check().unwrap();
        meter.pay(200);
        meter.check().unwrap_err();
    }
}
