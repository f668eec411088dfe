//! Splits a step's device time so that it adds up to the microsecond.

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
        let mut shares = split(device_us, &parts);
        self.padding_us += shares.pop().unwrap_or(0);
        self.busy_us += shares.iter().sum::<u64>();
        shares
    }
}

/// Divides `total` in proportion to `weights`: rounded down, then one more for the largest
/// remainders, the first of equals. The sum is `total` unless all weights are 0.
pub(crate) fn split(total: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    if sum == 0 {
        return vec![0; weights.len()];
    }
    let product = |weight: &u64| u128::from(total) * u128::from(*weight);
    // A share is at most the total, which fits.
    let mut shares: Vec<u64> =
        weights.iter().map(|weight| u64::try_from(product(weight) / sum).unwrap_or(u64::MAX)).collect();
    let missing = total - shares.iter().sum::<u64>();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|at| (std::cmp::Reverse(product(&weights[*at]) % sum), *at));
    for at in order.into_iter().take(usize::try_from(missing).unwrap_or(usize::MAX)) {
        shares[at] += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// Shares are whole, add up, and differ from the exact ones by less than one.
    #[test]
    fn shares_add_up() {
        let mut rng = StdRng::seed_from_u64(5);
        for _ in 0..2_000 {
            let count = rng.random_range(1..20);
            let high = [2, 1_000, u64::MAX][rng.random_range(0..3)];
            let weights: Vec<u64> = (0..count).map(|_| rng.random_range(0..high)).collect();
            let total = rng.random_range(0..10_000_000);
            let shares = split(total, &weights);
            let sum: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
            if sum == 0 {
                continue;
            }
            assert_eq!(shares.iter().sum::<u64>(), total);
            for (share, weight) in shares.iter().zip(&weights) {
                let exact = u128::from(total) * u128::from(*weight);
                assert!((u128::from(*share) * sum).abs_diff(exact) < sum, "{share} of {total}");
            }
        }
    }

    /// Equal weights differ by at most one, the first ones getting it.
    #[test]
    fn ties_go_to_the_first() {
        assert_eq!(split(11, &[5, 5, 5, 5]), [3, 3, 3, 2]);
        assert_eq!(split(0, &[1, 2]), [0, 0]);
        assert_eq!(split(7, &[0, 3]), [0, 7]);
    }

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
