//! How often somebody may try a token that is none.
//!
//! Tokens are 256 random bits, so nobody guesses one; what is bounded is the work and the noise of trying. An address has a
//! bucket of failures that fills up again; while it is empty nothing from there is looked at, right or wrong.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::SharedClock;
use crate::error::{Error, Kind, Result};

/// Failures that an address has at once.
const BURST: f64 = 10.0;
/// Seconds after which it has one more.
const REFILL_S: f64 = 6.0;
/// Addresses that are told apart; beyond, those unknown share one bucket.
const ADDRESSES_MAX: usize = 4_096;

/// Failures of late, by address. Clones share them.
#[derive(Clone)]
pub struct Attempts {
    clock: SharedClock,
    buckets: Arc<Mutex<HashMap<Option<IpAddr>, Bucket>>>,
}

#[derive(Clone, Copy)]
struct Bucket {
    left: f64,
    at: Duration,
}

impl Bucket {
    fn full(at: Duration) -> Self {
        Self { left: BURST, at }
    }

    fn refilled(self, now: Duration) -> Self {
        let more = now.saturating_sub(self.at).as_secs_f64() / REFILL_S;
        Self { left: (self.left + more).min(BURST), at: now }
    }
}

impl Attempts {
    /// Nobody has failed yet.
    #[must_use]
    pub fn new(clock: &SharedClock) -> Self {
        Self { clock: Arc::clone(clock), buckets: Arc::default() }
    }

    /// Whether a token from this address is looked at.
    ///
    /// # Errors
    /// `Throttled` with the wait, if too many from there were wrong.
    pub fn check(&self, from: Option<IpAddr>) -> Result<()> {
        let now = self.clock.monotonic();
        let buckets = self.buckets.lock();
        let Some(bucket) = buckets.get(&place(&buckets, from)) else { return Ok(()) };
        let left = bucket.refilled(now).left;
        if left >= 1.0 {
            return Ok(());
        }
        let retry_after = Duration::from_secs_f64(((1.0 - left) * REFILL_S).ceil());
        let message = format!("too many wrong tokens from this address; try again in {} s", retry_after.as_secs());
        Err(Error::new(Kind::Throttled { retry_after }, message))
    }

    /// A token from this address was wrong.
    pub fn failed(&self, from: Option<IpAddr>) {
        let now = self.clock.monotonic();
        let mut buckets = self.buckets.lock();
        if buckets.len() >= ADDRESSES_MAX {
            buckets.retain(|_, bucket| bucket.refilled(now).left < BURST);
        }
        let place = place(&buckets, from);
        let bucket = buckets.entry(place).or_insert_with(|| Bucket::full(now));
        *bucket = bucket.refilled(now);
        bucket.left = (bucket.left - 1.0).max(0.0);
    }
}

/// The bucket of an address: its own while there is room. Who has an IPv6 address has 2^64 of them, one network.
fn place(buckets: &HashMap<Option<IpAddr>, Bucket>, from: Option<IpAddr>) -> Option<IpAddr> {
    let network = from.map(|ip| match ip.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() >> 64 << 64).into()),
        four @ IpAddr::V4(_) => four,
    });
    network.filter(|_| buckets.len() < ADDRESSES_MAX || buckets.contains_key(&network))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::principal::tests::Hand;

    fn attempts() -> (Attempts, Arc<Hand>) {
        let at = Arc::new(Hand::second(0));
        (Attempts::new(&(Arc::clone(&at) as SharedClock)), at)
    }

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn ten_failures_close_an_address_for_a_while_and_no_other() {
        let (attempts, at) = attempts();
        let (one, other) = (address("192.0.2.1"), address("192.0.2.2"));
        for _ in 0..10 {
            assert!(attempts.check(one).is_ok());
            attempts.failed(one);
        }
        let refused = attempts.check(one).unwrap_err();
        assert_eq!(refused.kind().retry_after(), Some(Duration::from_secs(6)));
        assert!(refused.message().ends_with("in 6 s"), "{refused}");
        assert!(attempts.check(other).is_ok());
        at.set(6);
        assert!(attempts.check(one).is_ok());
        attempts.failed(one);
        assert!(attempts.check(one).is_err(), "one more, not ten");
        at.set(1_000);
        for _ in 0..10 {
            assert!(attempts.check(one).is_ok());
            attempts.failed(one);
        }
    }

    #[test]
    fn a_network_of_version_six_is_one_address_and_strangers_share_when_there_are_many() {
        let (attempts, _) = attempts();
        for last in 0..10 {
            attempts.failed(address(&format!("2001:db8::{last:x}")));
        }
        assert!(attempts.check(address("2001:db8::ffff")).is_err() && attempts.check(address("2001:db8:1::1")).is_ok());
        let many = u32::try_from(ADDRESSES_MAX + 20).unwrap();
        for bits in 0..many {
            attempts.failed(Some(IpAddr::from(bits.to_be_bytes())));
        }
        assert!(attempts.buckets.lock().len() <= ADDRESSES_MAX + 1);
        assert!(attempts.check(address("203.0.113.9")).is_err(), "those beyond the bound share one bucket");
    }
}
