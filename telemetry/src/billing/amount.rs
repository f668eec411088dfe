//! Amounts with all the decimals that bills have, and how they are cut to those that are stored.

use std::str::FromStr;

use crate::unit::Usd;

/// Why a text is not an amount.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an amount, or too large for one")]
pub struct NotAmount(String);

/// An amount in units of 10⁻¹⁸ of its currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exact(i128);

/// Decimals of an [`Exact`].
const DECIMALS: i32 = 18;
/// Units of an [`Exact`] in one of a stored amount, which has 12 decimals.
const PER_STORED: i128 = 1_000_000;
/// Digits of the largest amount, 10²⁰, which leaves room for sums.
const DIGITS_MAX: i32 = 38;

impl Exact {
    /// Nothing.
    pub const ZERO: Exact = Exact(0);

    /// Whether 12 decimals hold it.
    pub fn is_storable(self) -> bool {
        self.0 % PER_STORED == 0
    }
}

impl std::ops::Sub for Exact {
    type Output = Exact;

    fn sub(self, other: Exact) -> Exact {
        Exact(self.0.saturating_sub(other.0))
    }
}

impl std::ops::Add for Exact {
    type Output = Exact;

    fn add(self, other: Exact) -> Exact {
        Exact(self.0.saturating_add(other.0))
    }
}

impl FromStr for Exact {
    type Err = NotAmount;

    /// Reads `-12.5`, `.5` and `1.5E-7`. Decimals behind the eighteenth are rounded half away from zero.
    fn from_str(text: &str) -> Result<Exact, NotAmount> {
        let invalid = || NotAmount(text.to_owned());
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| invalid())?),
            None => (text, 0),
        };
        let (sign, digits) = match mantissa.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, mantissa.strip_prefix('+').unwrap_or(mantissa)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all = format!("{whole}{fraction}");
        if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(invalid());
        }
        let decimals = i32::try_from(fraction.len()).map_err(|_| invalid())?;
        let shift = exponent.checked_sub(decimals).and_then(|shift| shift.checked_add(DECIMALS)).ok_or_else(invalid)?;
        Ok(Exact(sign * shifted(all.trim_start_matches('0'), shift).ok_or_else(invalid)?))
    }
}

/// The digits as a number, times 10 to the power of `shift`, rounded half up. `None` where it is too large.
fn shifted(digits: &str, shift: i32) -> Option<i128> {
    let length = i32::try_from(digits.len()).ok()?;
    if digits.is_empty() || length.checked_add(shift)? < 0 {
        return Some(0);
    }
    if length + shift >= DIGITS_MAX {
        return None;
    }
    if shift >= 0 {
        return digits.parse::<i128>().ok()?.checked_mul(10_i128.checked_pow(u32::try_from(shift).ok()?)?);
    }
    let kept = usize::try_from(length + shift).ok()?;
    let (kept, cut) = digits.split_at_checked(kept)?;
    let up = i128::from(cut.as_bytes().first().is_some_and(|first| *first >= b'5'));
    Some(if kept.is_empty() { 0 } else { kept.parse::<i128>().ok()? } + up)
}

/// Cuts amounts to 12 decimals so that their sum stays what it is: what one loses, the next one gets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Carry(i128);

impl Carry {
    /// The amount with 12 decimals, at most one unit away from the exact one.
    pub fn store(&mut self, exact: Exact) -> Usd {
        if exact.is_storable() {
            return Usd(exact.0 / PER_STORED);
        }
        let due = exact.0.saturating_add(self.0);
        let half = if due < 0 { -PER_STORED / 2 } else { PER_STORED / 2 };
        let stored = due.saturating_add(half) / PER_STORED;
        self.0 = due - stored * PER_STORED;
        Usd(stored)
    }
}

#[cfg(test)]
mod tests {
    use super::{Carry, Exact};

    #[test]
    fn every_way_to_write_an_amount_is_read_exactly() {
        for (text, units) in [
            ("79.89512265992574", 79_895_122_659_925_740_000),
            ("0.00000080000", 800_000_000_000),
            ("-2.61370000000", -2_613_700_000_000_000_000),
            ("8E-07", 800_000_000_000),
            ("1.5e3", 1_500_000_000_000_000_000_000),
            (".5", 500_000_000_000_000_000),
            ("0", 0),
            ("0.0000000000000000004", 0),
            ("0.0000000000000000005", 1),
            ("-0.00000000000000000049", 0),
            ("1e-30", 0),
        ] {
            assert_eq!(text.parse(), Ok(Exact(units)), "{text}");
        }
        for text in ["", ".", "-", "1,5", "NaN", "inf", "1e", "0x1", "1e40", "1 ", "--1", "1e99999999999"] {
            assert!(text.parse::<Exact>().is_err(), "{text:?} must be refused");
        }
    }

    /// 1/3 of 10⁻¹² three times is 10⁻¹² and not nothing; the other way round too.
    #[test]
    fn what_is_cut_off_is_not_lost() {
        for sign in ["", "-"] {
            let mut carry = Carry::default();
            let exact: Exact = format!("{sign}0.000000000001333333").parse().expect("an amount");
            let stored: i128 = (0..9).map(|_| carry.store(exact).0).sum();
            // 9 × 1.333333 units = 11.999997, nearest 12
            assert_eq!(stored.abs(), 12, "{sign}");
        }
    }

    #[test]
    fn an_amount_that_fits_is_stored_as_it_is() {
        let mut carry = Carry::default();
        carry.store("0.0000000000004".parse().expect("an amount"));
        assert_eq!(carry.store("12.98127".parse().expect("an amount")).0, 12_981_270_000_000);
    }
}
