//! Exchange rates: dollars for one unit of another currency, from a date on. Without one nothing is converted.

use crate::list::{self, AS_OF, CONFIDENCE, Dated, FROM, ListColumn, NOTE, SOURCE, TO, column};
use crate::record::{Record, Refusal, rfc3339};
use crate::unit::{UNITS_PER_USD, Usd};

/// The columns of a list of rates, in any order.
pub const COLUMNS: &[ListColumn] = &[
    column("currency", true, "ISO 4217 code of the other currency, such as `EUR`"),
    column("usd_per_unit", true, "dollars for one unit of it, above 0, at most 9 decimals"),
    FROM,
    ListColumn {
        doc: "first instant at which it no longer holds; where it is empty, that of the next row of its currency, and the last one stays open",
        ..TO
    },
    SOURCE,
    AS_OF,
    CONFIDENCE,
    NOTE,
];

/// The smallest step of a rate, in units of [`Usd`].
const STEP: i128 = UNITS_PER_USD / 1_000_000_000;
/// No currency is worth that many dollars.
const DOLLARS_MAX: i128 = 1_000_000;

/// One dated rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// ISO 4217 code.
    pub currency: String,
    /// Dollars for one unit of the currency.
    pub usd: Usd,
    /// From when to when, and who says so.
    pub dated: Dated,
}

impl Rate {
    /// Reads a row.
    ///
    /// # Errors
    /// Why it is no rate.
    pub fn read(record: Record<'_>) -> Result<Rate, Refusal> {
        let currency = list::currency("currency", record.need("currency")?)?;
        if currency == "USD" {
            return Err(Refusal("`currency` is USD, which has no rate into itself".to_owned()));
        }
        let text = record.need("usd_per_unit")?;
        let usd: Usd = text.parse().map_err(|error| Refusal(format!("`usd_per_unit`: {error}")))?;
        if usd.0 <= 0 || usd.0 > DOLLARS_MAX * UNITS_PER_USD || usd.0 % STEP != 0 {
            return Err(Refusal(format!("`usd_per_unit` is {text}, not above 0 with at most 9 decimals")));
        }
        Ok(Rate { currency, usd, dated: Dated::read(record)? })
    }

    /// Whether two rows say the same from the same instant on.
    pub fn clashes(&self, other: &Rate) -> bool {
        self.currency == other.currency && self.dated.from_us == other.dated.from_us
    }
}

/// Has each open rate end where the next of its currency begins, so that one holds at any instant; in order of currency and time.
///
/// # Errors
/// Two rates that hold at the same instant.
pub fn in_turn(mut rates: Vec<Rate>) -> Result<Vec<Rate>, Refusal> {
    rates.sort_by(|a, b| (&a.currency, a.dated.from_us).cmp(&(&b.currency, b.dated.from_us)));
    for at in 1..rates.len() {
        let (before, after) = rates.split_at_mut(at);
        let (Some(one), Some(next)) = (before.last_mut(), after.first()) else { continue };
        if one.currency != next.currency {
            continue;
        }
        let begins = next.dated.from_us;
        if *one.dated.to_us.get_or_insert(begins) > begins {
            let (currency, at) = (&one.currency, rfc3339(begins));
            return Err(Refusal(format!("two rates of {currency} hold at {at}; end the first one there")));
        }
    }
    Ok(rates)
}

#[cfg(test)]
mod tests {
    use super::{Rate, in_turn};
    use crate::list::fixture;

    const NAMES: [&str; 5] = ["currency", "usd_per_unit", "effective_from", "effective_to", "source"];

    fn read(values: [&str; 5]) -> Result<Rate, String> {
        fixture::row(Rate::read, NAMES, values)
    }

    #[test]
    fn an_open_rate_ends_where_the_next_begins() {
        let of = |currency, usd, from, to| read([currency, usd, from, to, "ECB"]).expect("a rate");
        let rates = in_turn(vec![
            of("EUR", "1.09", "2026-02-01", ""),
            of("JPY", "0.0065", "2026-01-01", ""),
            of("EUR", "1.08", "2026-01-01", ""),
        ])
        .expect("in turn");
        let ends: Vec<_> = rates.iter().map(|rate| (rate.usd.to_string(), rate.dated.to_us.is_some())).collect();
        let end = |usd: &str, ends| (format!("{usd}000000"), ends);
        assert_eq!(ends, [end("1.080000", true), end("1.090000", false), end("0.006500", false)]);
        let overlapping = vec![of("EUR", "1", "2026-01-01", "2026-03-01"), of("EUR", "2", "2026-02-01", "")];
        let refusal = in_turn(overlapping).expect_err("both hold in February");
        assert!(refusal.0.contains("two rates of EUR hold at 2026-02-01T00:00:00Z"), "{refusal}");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let wrong = [
            (0, "USD", "no rate into itself"),
            (0, "Euro", "not a currency such as EUR"),
            (1, "0", "not above 0"),
            (1, "1.0000000001", "at most 9 decimals"),
            (1, "about 1", "not an amount"),
        ];
        fixture::refuses(Rate::read, NAMES, ["EUR", "1.08", "2026-01-01", "", "ECB"], &wrong);
    }
}
