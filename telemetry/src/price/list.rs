//! A price list as operators write it: CSV with documented columns, read row by row.

use super::{OPTIONS, Price};
use crate::{
    list::{self, AS_OF, CONFIDENCE, Dated, FROM, ListColumn, NOTE, SOURCE, TO, column},
    record::{Header, Record, Refusal},
    unit::Usd,
};

/// The columns of a price list, in any order.
pub const COLUMNS: &[ListColumn] = &[
    ListColumn {
        alias: Some("instance_type"),
        ..column(
            "host_type",
            true,
            "instance type as `host.type` says it, such as `inf2.48xlarge`; `instance_type` is understood too",
        )
    },
    column("region", true, "cloud region"),
    column(
        "zone",
        false,
        "availability zone; empty for a price of the whole region. A zone's own price outranks the region's",
    ),
    ListColumn {
        alias: Some("purchase_option"),
        ..column(
            "option",
            true,
            "`on_demand`, `spot`, `savings_plan`, `reserved`, `capacity_block` or `custom`; `purchase_option` is understood too",
        )
    },
    column(
        "usd_per_hour",
        false,
        "price of the whole host in USD an hour, at most 12 decimals, not negative; every row has this or the next one",
    ),
    column("price_per_hour", false, "price of the whole host an hour in the currency of the row, in the same form"),
    FROM,
    TO,
    SOURCE,
    AS_OF,
    CONFIDENCE,
    NOTE,
    column(
        "currency",
        false,
        "ISO 4217 code of `price_per_hour`; `USD` where it is left out. Another one is converted by the rate that holds at the time",
    ),
];

/// Sees to it that the header has what is needed and nothing that would be ignored.
///
/// # Errors
/// All that is wrong with it.
pub fn check(header: &Header) -> Result<(), Refusal> {
    list::check(header, COLUMNS)
}

impl Price {
    /// Reads a row of a price list.
    ///
    /// # Errors
    /// Why it is no price.
    pub fn read(record: Record<'_>) -> Result<Price, Refusal> {
        let need = |name: &str| {
            let alias = COLUMNS.iter().find(|column| column.name == name).and_then(|column| column.alias);
            let other = alias.and_then(|alias| record.get(alias));
            other.map_or_else(|| record.need(name), Ok).map(str::to_owned)
        };
        let dated = Dated::read(record)?;
        let (currency, per_hour) = per_hour(record)?;
        Ok(Price {
            host_type: need("host_type")?,
            region: need("region")?,
            zone: record.get("zone").map(str::to_owned),
            option: list::one_of("option", &need("option")?, &OPTIONS)?,
            per_hour,
            currency,
            effective_from_us: dated.from_us,
            effective_to_us: dated.to_us,
            source: dated.source,
            as_of: dated.as_of,
            confidence: dated.confidence,
            note: dated.note,
        })
    }

    /// Whether two rows claim the same thing from the same instant on.
    pub fn same_claim(&self, other: &Price) -> bool {
        (&self.host_type, &self.region, &self.zone, &self.option, self.effective_from_us)
            == (&other.host_type, &other.region, &other.zone, &other.option, other.effective_from_us)
    }
}

/// The currency of the row's price, and the price in it.
fn per_hour(record: Record<'_>) -> Result<(String, Usd), Refusal> {
    let currency = list::currency("currency", record.get("currency").unwrap_or("USD"))?;
    let known = ["usd_per_hour", "price_per_hour"].map(|name| record.get(name).map(|text| (name, text)));
    match known {
        [Some(_), None] if currency != "USD" => {
            Err(Refusal(format!("`usd_per_hour` is in USD; give a price in {currency} as `price_per_hour`")))
        }
        [Some((name, text)), None] | [None, Some((name, text))] => Ok((currency, amount(name, text)?)),
        [None, None] => Err(Refusal("`usd_per_hour` is missing".to_owned())),
        [Some(_), Some(_)] => Err(Refusal("`usd_per_hour` and `price_per_hour` are both there".to_owned())),
    }
}

fn amount(name: &str, text: &str) -> Result<Usd, Refusal> {
    let amount: Usd = text.parse().map_err(|error| Refusal(format!("`{name}`: {error}")))?;
    if amount.0 < 0 {
        return Err(Refusal(format!("`{name}` is negative")));
    }
    Ok(amount)
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, check};
    use crate::price::{discount, rate};
    use crate::{list::fixture, price::Price, record::Header};

    const NAMES: [&str; 8] = [
        "instance_type",
        "region",
        "purchase_option",
        "usd_per_hour",
        "effective_from",
        "effective_to",
        "source",
        "currency",
    ];

    fn read(values: [&str; 8]) -> Result<Price, String> {
        fixture::row(Price::read, NAMES, values)
    }

    const GOOD: [&str; 8] =
        ["p5.48xlarge", "us-east-1", "savings_plan", "31.464000000001", "2026-01-01", "2027-01-01", "contract 7", ""];

    #[test]
    fn a_row_keeps_every_decimal_and_its_dates() {
        let price = read(GOOD).expect("a price");
        assert_eq!(price.per_hour.0, 31_464_000_000_001);
        assert_eq!(
            (price.effective_from_us, price.effective_to_us),
            (1_767_225_600_000_000, Some(1_798_761_600_000_000))
        );
        assert_eq!((price.as_of.as_str(), price.confidence.as_str(), price.zone), ("2026-01-01", "published", None));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let wrong = [
            (0, "", "`host_type` is missing"),
            (2, "spot_min_az", "`option` is \"spot_min_az\", not one of"),
            (3, "12,98", "not an amount"),
            (3, "-1", "negative"),
            (3, "1.0000000000001", "at most 12 decimals"),
            (4, "soon", "`effective_from` is \"soon\""),
            (5, "2026-01-01", "not after"),
            (6, "", "`source` is missing"),
            (7, "EUR", "give a price in EUR as `price_per_hour`"),
            (7, "Euro", "not a currency such as EUR"),
        ];
        fixture::refuses(Price::read, NAMES, GOOD, &wrong);
    }

    /// docs/cost.md says what can be written, in the words of [`COLUMNS`].
    #[test]
    fn every_column_is_documented() {
        let page = include_str!("../../../docs/cost.md");
        for columns in [COLUMNS, discount::COLUMNS, rate::COLUMNS] {
            fixture::documents("docs/cost.md", page, columns);
        }
    }

    #[test]
    fn a_header_is_whole_and_nothing_is_ignored() {
        assert_eq!(check(&Header::new(NAMES).expect("a header")), Ok(()));
        assert_eq!(check(&Header::new(COLUMNS.iter().map(|column| column.name)).expect("a header")), Ok(()));
        let refusal = check(&Header::new(["host_type", "region", "price"]).expect("a header")).expect_err("no price");
        assert_eq!(refusal.0, "columns missing: option, effective_from, source; columns unknown: price");
    }
}
