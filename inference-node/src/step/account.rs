//! Splits a step's device time so that it adds up to the microsecond.

use telemetry::unit::share;

/// Device time since the engine started.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// Given to requests.
    pub(crate) busy_us: u64,
    /// Given to compiled but empty slots.
    pub(crate) padding_us: u64,
}

impl Account {
    /// Books a step of `device_us` and returns the share of each weight, whole microseconds.
    pub(crate) fn book(&mut self, device_us: u64, weights: &[u64], padding_weight: u64) -> Vec<u64> {
        let mut parts = weights.to_vec();
        parts.push(padding_weight);
        if parts.iter().all(|weight| *weight == 0) {
            parts.iter_mut().take(weights.len()).for_each(|weight| *weight = 1);
        }
        let mut shares = share(device_us, &parts);
        self.padding_us += shares.pop().unwrap_or(0);
        self.busy_us += shares.iter().sum::<u64>();
        shares
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// Every step's time is either busy or padding.
    #[test]
    fn nothing_is_lost_between_busy_and_padding() {
        let mut rng = StdRng::seed_from_u64(6);
        let (mut account, mut total) = (Account::default(), 0);
        for _ in 0..1_000 {
            let weights: Vec<u64> = (0..rng.random_range(1..9)).map(|_| rng.random_range(0..5)).collect();
            let device = rng.random_range(0..50_000);
            let busy = account.busy_us;
            let shares = account.book(device, &weights, rng.random_range(0..9));
            assert_eq!(shares.len(), weights.len());
            assert_eq!(account.busy_us - busy, shares.iter().sum::<u64>());
            total += device;
            assert_eq!(account.busy_us + account.padding_us, total);
        }
    }
}
