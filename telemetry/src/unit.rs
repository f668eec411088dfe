//! Quantities that must not be floats.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// US dollars in units of 10⁻¹² dollars, the scale of a `DECIMAL(38,12)` column: `$0.0375` per million tokens is
/// 37,500 units a token, which no float and no micro-dollar keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Usd(pub i128);

/// Units in one dollar.
pub const UNITS_PER_USD: i128 = 1_000_000_000_000;

/// Why a text is not an amount.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an amount in dollars with at most 12 decimals")]
pub struct NotUsd(String);

impl FromStr for Usd {
    type Err = NotUsd;

    fn from_str(text: &str) -> Result<Self, NotUsd> {
        let invalid = || NotUsd(text.to_owned());
        let (sign, digits) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || fraction.len() > 12 || !is_digits(whole) || !is_digits(fraction) {
            return Err(invalid());
        }
        let whole: i128 = whole.parse().map_err(|_| invalid())?;
        let fraction: i128 = format!("{fraction:0<12}").parse().map_err(|_| invalid())?;
        let units =
            whole.checked_mul(UNITS_PER_USD).and_then(|units| units.checked_add(fraction)).ok_or_else(invalid)?;
        Ok(Usd(sign * units))
    }
}

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let units = self.0.unsigned_abs();
        let scale = UNITS_PER_USD.unsigned_abs();
        write!(f, "{sign}{}.{:012}", units / scale, units % scale)
    }
}

/// Shares `total` in proportion to `weights` in whole units that sum to `total` exactly (largest remainder; ties go to
/// the earlier weight). With no weight at all there is nobody to give it to and every share is zero.
pub fn share(total: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    if sum == 0 {
        return vec![0; weights.len()];
    }
    let exact = |weight: u64| u128::from(total) * u128::from(weight);
    let floor = |weight: u64| u64::try_from(exact(weight) / sum).unwrap_or(u64::MAX);
    let mut shares: Vec<u64> = weights.iter().map(|weight| floor(*weight)).collect();
    let mut by_remainder: Vec<usize> = (0..weights.len()).collect();
    by_remainder.sort_by_key(|index| std::cmp::Reverse(exact(weights[*index]) % sum));
    let rest = total - shares.iter().sum::<u64>();
    for index in by_remainder.into_iter().take(usize::try_from(rest).unwrap_or(usize::MAX)) {
        shares[index] += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::{Usd, share};

    #[test]
    fn dollars_survive_text_exactly() {
        for (text, units) in [
            ("12.98127", 12_981_270_000_000),
            ("0.0000000375", 37_500),
            ("-1.5", -1_500_000_000_000),
            ("7", 7_000_000_000_000),
        ] {
            let parsed: Usd = text.parse().expect(text);
            assert_eq!(parsed, Usd(units));
            assert_eq!(parsed.to_string().parse(), Ok(parsed));
        }
        for text in ["", ".5", "1e3", "NaN", "1.0000000000001", "1,5", "--1"] {
            assert!(text.parse::<Usd>().is_err(), "{text:?} must be refused");
        }
    }

    #[test]
    fn shares_sum_exactly_and_follow_the_weights() {
        assert_eq!(share(10, &[1, 1, 1]), [4, 3, 3]);
        assert_eq!(share(7, &[0, 5, 2]), [0, 5, 2]);
        assert_eq!(share(5, &[0, 0]), [0, 0]);
        let weights = [3, 141, 59, 26, 0, 535];
        for total in [0, 1, 999, u64::from(u32::MAX)] {
            assert_eq!(share(total, &weights).iter().sum::<u64>(), total);
        }
    }
}
