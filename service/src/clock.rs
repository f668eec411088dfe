//! Time as an argument.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A wait that a clock ends.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A source of time. Logic asks its clock, never the machine.
pub trait Clock: Send + Sync + 'static {
    /// Nanoseconds since 1970-01-01 UTC.
    fn now_ns(&self) -> i64;

    /// Time since a fixed but arbitrary instant; never goes back.
    fn monotonic(&self) -> Duration;

    /// Microseconds since 1970-01-01 UTC: the resolution of every stored time.
    fn now_us(&self) -> i64 {
        self.now_ns().div_euclid(1_000)
    }

    /// Waits. A simulation moves its own clock on instead of spending real time.
    fn sleep(&self, duration: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// A clock that several services share.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's clock.
#[derive(Debug, Clone)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// A clock whose [`Clock::monotonic`] starts at zero now.
    #[must_use]
    pub fn new() -> Self {
        Self { started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now_ns(&self) -> i64 {
        // A machine set before 1970 reads 0, one set after 2262 reads the last instant an i64 can hold.
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}

/// The machine's clock, shared.
#[must_use]
pub fn system() -> SharedClock {
    Arc::new(SystemClock::new())
}
