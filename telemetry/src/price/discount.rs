//! Negotiated discounts: what is paid of the list price, by contract, from a date on.

use crate::list::{self, AS_OF, CONFIDENCE, Dated, FROM, ListColumn, NOTE, SOURCE, TO, column};
use crate::record::{Record, Refusal};
use crate::unit::{UNITS_PER_USD, Usd};

use super::OPTIONS;

/// The columns of a list of discounts, in any order.
pub const COLUMNS: &[ListColumn] = &[
    column(
        "option",
        true,
        "purchase option whose price it is of: `on_demand`, `spot`, `savings_plan`, `reserved`, `capacity_block` or `custom`",
    ),
    column(
        "factor",
        true,
        "what is paid of a dollar at the price in the book: 0.9 is ten percent off. Above 0, at most 1, at most 6 decimals",
    ),
    column("host_type", false, "instance type; empty for all"),
    column("region", false, "cloud region; empty for all"),
    FROM,
    TO,
    SOURCE,
    AS_OF,
    CONFIDENCE,
    NOTE,
];

/// A thousandth of a thousandth: the smallest step of a factor, in units of [`Usd`].
const STEP: i128 = UNITS_PER_USD / 1_000_000;

/// One dated discount.
#[derive(Clone, Debug, PartialEq)]
pub struct Discount {
    /// Purchase option.
    pub option: String,
    /// Share of the price that is paid, as dollars paid of one dollar.
    pub factor: Usd,
    /// Instance type; `None` is every one.
    pub host_type: Option<String>,
    /// Cloud region; `None` is every one.
    pub region: Option<String>,
    /// From when to when, and who says so.
    pub dated: Dated,
}

impl Discount {
    /// Reads a row.
    ///
    /// # Errors
    /// Why it is no discount.
    pub fn read(record: Record<'_>) -> Result<Discount, Refusal> {
        let text = record.need("factor")?;
        let factor: Usd = text.parse().map_err(|error| Refusal(format!("`factor`: {error}")))?;
        if !(1..=UNITS_PER_USD).contains(&factor.0) {
            return Err(Refusal(format!("`factor` is {text}, not above 0 and at most 1: 0.9 is ten percent off")));
        }
        if factor.0 % STEP != 0 {
            return Err(Refusal(format!("`factor` is {text}, with more than 6 decimals")));
        }
        Ok(Discount {
            option: list::one_of("option", record.need("option")?, &OPTIONS)?,
            factor,
            host_type: record.get("host_type").map(str::to_owned),
            region: record.get("region").map(str::to_owned),
            dated: Dated::read(record)?,
        })
    }

    /// Whether two rows are of the same prices at some instant, so that nobody could tell which holds.
    pub fn clashes(&self, other: &Discount) -> bool {
        (&self.option, &self.host_type, &self.region) == (&other.option, &other.host_type, &other.region)
            && self.dated.overlaps(&other.dated)
    }
}

#[cfg(test)]
mod tests {
    use super::Discount;
    use crate::list::fixture;

    const NAMES: [&str; 7] = ["option", "factor", "host_type", "region", "effective_from", "effective_to", "source"];
    const GOOD: [&str; 7] = ["on_demand", "0.875", "", "eu-west-1", "2026-01-01", "2027-01-01", "contract 7"];

    fn read(values: [&str; 7]) -> Result<Discount, String> {
        fixture::row(Discount::read, NAMES, values)
    }

    #[test]
    fn a_discount_is_of_all_types_unless_it_names_one() {
        let discount = read(GOOD).expect("a discount");
        assert_eq!((discount.factor.0, discount.host_type.as_deref()), (875_000_000_000, None));
        let mut later = discount.clone();
        later.dated.from_us = discount.dated.to_us.expect("an end");
        later.dated.to_us = None;
        assert!(discount.clashes(&discount) && !discount.clashes(&later));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let wrong = [
            (0, "", "`option` is missing"),
            (0, "list", "not one of"),
            (1, "10", "not above 0 and at most 1"),
            (1, "0", "not above 0"),
            (1, "0.8750001", "more than 6 decimals"),
            (5, "2025-01-01", "not after"),
            (6, "", "`source` is missing"),
        ];
        fixture::refuses(Discount::read, NAMES, GOOD, &wrong);
    }
}
