//! Whether a change can be told from noise: turns with and without it come in pairs, and pairs are compared.
//!
//! Turns follow one another as without, with, with, without, so that what drifts meanwhile (a clock, a neighbour, heat) is on both
//! sides alike. The median of the pairs' ratios is the change. Its interval is that of the sign test: the true median lies in it
//! with 95 % whatever the noise is distributed like.

use serde_json::{Value, json};

/// Chance that the true median lies above or below the interval, each.
const TAIL: f64 = 0.025;

/// Whether the turn of this number, from 0, is one with.
pub(super) fn is_with(turn: u32) -> bool {
    matches!(turn % 4, 1 | 2)
}

/// How a figure changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Change {
    /// Median over the pairs, percent of the figure without.
    pub(super) percent: f64,
    /// Lowest and highest percentage that the true median may have; `None` of too few pairs to say.
    pub(super) interval: Option<(f64, f64)>,
}

impl Change {
    /// From pairs of a figure without and with; `None` of none.
    pub(super) fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        let mut changes: Vec<f64> = pairs.iter().map(|(without, with)| 100.0 * (with / without - 1.0)).collect();
        changes.sort_by(f64::total_cmp);
        let last = changes.len().checked_sub(1)?;
        let percent = (changes[last / 2] + changes[last.div_ceil(2)]) / 2.0;
        let interval = outside(changes.len()).map(|outside| (changes[outside], changes[last - outside]));
        Some(Self { percent, interval })
    }

    /// Whether the figure changes by no more than so many percent; `None` where the pairs leave it open.
    pub(super) fn within(&self, percent: f64) -> Option<bool> {
        let (low, high) = self.interval?;
        match (low, high) {
            _ if -percent <= low && high <= percent => Some(true),
            _ if high < -percent || percent < low => Some(false),
            _ => None,
        }
    }

    /// As it is printed.
    pub(super) fn json(&self) -> (Value, Value) {
        let interval = self.interval.map(|(low, high)| json!([super::round(low), super::round(high)]));
        (json!(super::round(self.percent)), interval.unwrap_or(Value::Null))
    }
}

/// How many of so many sorted values lie outside the interval at either end: most for which a fair coin shows no more heads in as many
/// throws with at most [`TAIL`].
fn outside(count: usize) -> Option<usize> {
    let mut chance = 0.5_f64.powi(i32::try_from(count).ok()?);
    let (mut heads, mut sum) = (0, chance);
    while sum <= TAIL {
        chance *= (count - heads) as f64 / (heads + 1) as f64;
        heads += 1;
        sum += chance;
    }
    heads.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Orders of the textbook table for the sign test at 95 %: none below six values, then the first and last, the second at nine, ….
    #[test]
    fn intervals_are_those_of_the_sign_test() {
        let ranks: Vec<_> = [1, 5, 6, 8, 9, 11, 12, 15, 20, 40].map(outside).into();
        assert_eq!(ranks, [None, None, Some(0), Some(0), Some(1), Some(1), Some(2), Some(3), Some(5), Some(13)]);
    }

    /// A drift that goes on evenly is not taken for a change, since every other pair is the other way round.
    #[test]
    fn drift_is_no_change() {
        let turns: Vec<f64> = (0..48).map(|turn| 1_000.0 + 5.0 * f64::from(turn)).collect();
        let pairs: Vec<(f64, f64)> = (0..24_u32)
            .map(|pair| {
                let (first, second) = (turns[2 * pair as usize], turns[2 * pair as usize + 1]);
                if is_with(2 * pair) { (second, first) } else { (first, second) }
            })
            .collect();
        let change = Change::of(&pairs).unwrap();
        assert!(change.percent.abs() < 0.05, "{change:?}");
        assert_eq!(change.within(1.0), Some(true));
        assert_eq!(Change::of(&[]), None);
    }

    /// Few pairs and wide ones decide nothing, clear ones do.
    #[test]
    fn only_what_is_clear_is_said() {
        let with = |changes: &[f64]| {
            let pairs: Vec<_> = changes.iter().map(|change| (100.0, 100.0 + change)).collect();
            Change::of(&pairs).unwrap()
        };
        assert_eq!(with(&[0.0; 5]).within(1.0), None);
        assert_eq!(with(&[-3.0, -0.5, 0.1, 0.2, 0.4, 2.0]).within(1.0), None);
        assert_eq!(with(&[-0.9, -0.5, 0.1, 0.2, 0.4, 0.9]).within(1.0), Some(true));
        assert_eq!(with(&[-9.0, -5.0, -3.0, -2.0, -1.5, -1.1]).within(1.0), Some(false));
        assert!((with(&[1.0, 2.0, 3.0, 10.0]).percent - 2.5).abs() < 1e-9);
    }
}
