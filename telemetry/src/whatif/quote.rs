//! What a host costs over a stretch of time: the mean of the prices that hold in it, each at the factors of its own time.

use super::Scenario;
use crate::price::Price;
use crate::unit::Usd;

/// Prices that are told one by one.
const TOLD_MAX: usize = 6;
const HOUR_US: f64 = 3_600e6;

/// What one host costs, and where that stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quote {
    /// Price of the whole host in the book; `None` where there is none for some of the time.
    pub usd_per_hour: Option<Usd>,
    /// What of it is paid: at the negotiated discount in force, else the price.
    pub effective_usd_per_hour: Option<Usd>,
    /// Where it stands, or why there is none, for people.
    pub told: Vec<String>,
}

impl From<&Price> for Quote {
    fn from(price: &Price) -> Quote {
        let told = format!(
            "{} USD an hour a host: {} {} in {} ({}, as of {}, {})",
            price.per_hour, price.option, price.host_type, price.region, price.confidence, price.as_of, price.source
        );
        let usd = Some(price.per_hour);
        Quote { usd_per_hour: usd, effective_usd_per_hour: usd, told: vec![told] }
    }
}

/// A stretch of time in which one price holds, at one rate of its currency and one discount; or none does.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// Its first instant, µs since the epoch.
    pub from_us: i64,
    /// The instant after its last.
    pub to_us: i64,
    /// Price of the whole host in the book; `None` where there is none.
    pub usd_per_hour: Option<Usd>,
    /// What of it is paid; `None` without a price.
    pub effective_usd_per_hour: Option<Usd>,
    /// Option, source, date and confidence of price, rate and discount, or what is missing, for people.
    pub told: String,
}

/// The mean of the prices between two instants, each by how long it holds. Where one is missing the whole is unknown.
#[must_use]
pub fn quote(pieces: &[Piece], (from_us, to_us): (i64, i64)) -> Quote {
    let held = |piece: &Piece| (piece.to_us.min(to_us) - piece.from_us.max(from_us)).max(0);
    let within: Vec<_> = pieces.iter().map(|piece| (piece, held(piece))).filter(|(_, us)| *us > 0).collect();
    let whole_us: i64 = within.iter().map(|(_, us)| us).sum();
    let mean = |price: fn(&Piece) -> Option<Usd>| {
        let mut sum = 0_i128;
        for (piece, us) in &within {
            sum = sum.checked_add(price(piece)?.0.checked_mul(i128::from(*us))?)?;
        }
        let whole = i128::from(whole_us);
        (whole > 0).then(|| Usd((sum + whole / 2) / whole))
    };
    let share = |us: i64| match within.len() {
        1 => String::new(),
        _ => format!(" for {:.2} of {:.2} h", us as f64 / HOUR_US, whole_us as f64 / HOUR_US),
    };
    let mut told: Vec<_> =
        within.iter().take(TOLD_MAX).map(|(piece, us)| format!("{}{}", piece.told, share(*us))).collect();
    if within.len() > TOLD_MAX {
        told.push(format!("and {} prices more", within.len() - TOLD_MAX));
    }
    Quote {
        usd_per_hour: mean(|piece| piece.usd_per_hour),
        effective_usd_per_hour: mean(|piece| piece.effective_usd_per_hour),
        told,
    }
}

/// What the cost stands on.
pub(super) fn assumptions(scenario: &Scenario<'_>, quote: &Quote) -> Vec<String> {
    let mut assumes = quote.told.clone();
    match (quote.usd_per_hour, quote.effective_usd_per_hour) {
        (Some(list), Some(effective)) => {
            if quote.told.len() > 1 {
                assumes
                    .push(format!("{list} USD an hour a host in the mean of these hours, {effective} USD of it paid"));
            }
            assumes.push("whole hosts are paid".to_owned());
        }
        _ => assumes.push(format!(
            "no price of {} in {} with that option for all of these hours: cost is unknown",
            scenario.host_type, scenario.region
        )),
    }
    assumes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(from_us: i64, to_us: i64, usd: Option<i128>) -> Piece {
        let price = usd.map(Usd);
        let told = format!("{usd:?}");
        Piece { from_us, to_us, usd_per_hour: price, effective_usd_per_hour: price.map(|usd| Usd(usd.0 / 2)), told }
    }

    /// 10 for a quarter of the time and 20 for the rest are 17.5, which is 18 in whole units; what lies outside has no part.
    #[test]
    fn prices_count_by_how_long_they_hold() {
        let pieces = [piece(0, 20, Some(10)), piece(20, 60, Some(20)), piece(60, 100, None)];
        let found = quote(&pieces, (10, 50));
        assert_eq!((found.usd_per_hour, found.effective_usd_per_hour), (Some(Usd(18)), Some(Usd(9))));
        assert_eq!(found.told.len(), 2, "{found:?}");
        let whole = quote(&pieces, (20, 60));
        assert_eq!((whole.usd_per_hour, whole.told), (Some(Usd(20)), vec!["Some(20)".to_owned()]));
        assert_eq!(quote(&pieces, (50, 70)).usd_per_hour, None, "a part without a price");
        assert_eq!(quote(&[], (0, 10)), Quote::default());
    }
}
