//! A price list as operators write it: CSV with documented columns, read row by row.

use super::{OPTIONS, Price};
use crate::{
    record::{Header, Record, Refusal, instant},
    unit::Usd,
};

/// A column of a price list.
#[derive(Debug)]
pub struct ListColumn {
    /// Name in the header.
    pub name: &'static str,
    /// Whether every row must have it.
    pub needed: bool,
    /// What stands in it.
    pub doc: &'static str,
}

const fn column(name: &'static str, needed: bool, doc: &'static str) -> ListColumn {
    ListColumn { name, needed, doc }
}

/// The columns of a price list, in any order.
pub const COLUMNS: &[ListColumn] = &[
    column(
        "host_type",
        true,
        "instance type as `host.type` says it, such as `inf2.48xlarge`; `instance_type` is understood too",
    ),
    column("region", true, "cloud region"),
    column(
        "zone",
        false,
        "availability zone; empty for a price of the whole region. A zone's own price outranks the region's",
    ),
    column(
        "option",
        true,
        "`on_demand`, `spot`, `savings_plan`, `reserved`, `capacity_block` or `custom`; `purchase_option` is understood too",
    ),
    column("usd_per_hour", true, "price of the whole host in USD an hour, at most 12 decimals, not negative"),
    column("effective_from", true, "first instant at which it holds: a date or RFC 3339"),
    column("effective_to", false, "first instant at which it no longer holds; empty while open"),
    column("source", true, "where it was read: a contract, an address, a person"),
    column("as_of", false, "when the source was current; `effective_from` where it is left out"),
    column(
        "confidence",
        false,
        "`measured`, `published`, `secondary`, `undated_source`, `estimated` or `assumed`; `published` where it is left out",
    ),
    column("note", false, "anything worth knowing"),
    column("currency", false, "`USD`, which is all there is until rates of other currencies are kept"),
];

const CONFIDENCES: [&str; 6] = ["measured", "published", "secondary", "undated_source", "estimated", "assumed"];

/// Sees to it that the header has what is needed and nothing that would be ignored.
///
/// # Errors
/// All that is wrong with it.
pub fn check(header: &Header) -> Result<(), Refusal> {
    let named =
        |column: &&ListColumn| header.has(column.name) || alias(column.name).is_some_and(|name| header.has(name));
    let missing: Vec<_> =
        COLUMNS.iter().filter(|column| column.needed && !named(column)).map(|column| column.name).collect();
    let known = |name: &&String| {
        COLUMNS.iter().any(|column| column.name == **name || alias(column.name) == Some(name.as_str()))
    };
    let unknown: Vec<_> = header.names().iter().filter(|name| !known(name)).map(String::as_str).collect();
    let mut faults = Vec::new();
    if !missing.is_empty() {
        faults.push(format!("columns missing: {}", missing.join(", ")));
    }
    if !unknown.is_empty() {
        faults.push(format!("columns unknown: {}", unknown.join(", ")));
    }
    if faults.is_empty() { Ok(()) } else { Err(Refusal(faults.join("; "))) }
}

fn alias(name: &str) -> Option<&'static str> {
    match name {
        "host_type" => Some("instance_type"),
        "option" => Some("purchase_option"),
        _ => None,
    }
}

impl Price {
    /// Reads a row of a price list.
    ///
    /// # Errors
    /// Why it is no price.
    pub fn read(record: Record<'_>) -> Result<Price, Refusal> {
        let need = |name: &str| {
            let other = alias(name).and_then(|other| record.get(other));
            other.map_or_else(|| record.need(name), Ok).map(str::to_owned)
        };
        let effective_from_us = crate::record::need_instant(record, "effective_from")?;
        let effective_to_us = record.get("effective_to").map(|text| until(text, effective_from_us)).transpose()?;
        if let Some(currency) = record.get("currency").filter(|currency| *currency != "USD") {
            return Err(Refusal(format!(
                "`currency` is {currency}: prices are in USD, convert it and name the rate in `note`"
            )));
        }
        Ok(Price {
            host_type: need("host_type")?,
            region: need("region")?,
            zone: record.get("zone").map(str::to_owned),
            option: one_of("option", &need("option")?, &OPTIONS)?,
            usd_per_hour: usd(record.need("usd_per_hour")?)?,
            effective_from_us,
            effective_to_us,
            source: need("source")?,
            as_of: record.get("as_of").unwrap_or(record.need("effective_from")?).to_owned(),
            confidence: one_of("confidence", record.get("confidence").unwrap_or("published"), &CONFIDENCES)?,
            note: record.get("note").map(str::to_owned),
        })
    }

    /// Whether two rows claim the same thing from the same instant on.
    pub fn same_claim(&self, other: &Price) -> bool {
        (&self.host_type, &self.region, &self.zone, &self.option, self.effective_from_us)
            == (&other.host_type, &other.region, &other.zone, &other.option, other.effective_from_us)
    }
}

fn until(text: &str, from_us: i64) -> Result<i64, Refusal> {
    match instant(text) {
        Some(us) if us > from_us => Ok(us),
        Some(_) => Err(Refusal("`effective_to` is not after `effective_from`".to_owned())),
        None => Err(Refusal(format!("`effective_to` is {text:?}, not a time such as 2026-05-01"))),
    }
}

fn usd(text: &str) -> Result<Usd, Refusal> {
    let usd: Usd = text.parse().map_err(|error| Refusal(format!("`usd_per_hour`: {error}")))?;
    if usd.0 < 0 {
        return Err(Refusal("`usd_per_hour` is negative".to_owned()));
    }
    Ok(usd)
}

fn one_of(name: &str, value: &str, allowed: &[&str]) -> Result<String, Refusal> {
    if allowed.contains(&value) {
        return Ok(value.to_owned());
    }
    Err(Refusal(format!("`{name}` is {value:?}, not one of {}", allowed.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, check};
    use crate::{
        price::Price,
        record::{Header, Record},
    };

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
        let header = Header::new(NAMES).expect("a header");
        let values = values.map(Some);
        Price::read(Record::new(&header, &values).expect("a row")).map_err(|refusal| refusal.0)
    }

    const GOOD: [&str; 8] =
        ["p5.48xlarge", "us-east-1", "savings_plan", "31.464000000001", "2026-01-01", "2027-01-01", "contract 7", ""];

    #[test]
    fn a_row_keeps_every_decimal_and_its_dates() {
        let price = read(GOOD).expect("a price");
        assert_eq!(price.usd_per_hour.0, 31_464_000_000_001);
        assert_eq!(
            (price.effective_from_us, price.effective_to_us),
            (1_767_225_600_000_000, Some(1_798_761_600_000_000))
        );
        assert_eq!((price.as_of.as_str(), price.confidence.as_str(), price.zone), ("2026-01-01", "published", None));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (at, value, reason) in [
            (0, "", "`host_type` is missing"),
            (2, "spot_min_az", "`option` is \"spot_min_az\", not one of"),
            (3, "12,98", "not an amount"),
            (3, "-1", "negative"),
            (3, "1.0000000000001", "at most 12 decimals"),
            (4, "soon", "`effective_from` is \"soon\""),
            (5, "2026-01-01", "not after"),
            (6, "", "`source` is missing"),
            (7, "EUR", "EUR"),
        ] {
            let mut row = GOOD;
            row[at] = value;
            let refusal = read(row).expect_err(value);
            assert!(refusal.contains(reason), "{refusal:?} lacks {reason:?}");
        }
    }

    /// docs/cost.md says what can be written, in the words of [`COLUMNS`].
    #[test]
    fn every_column_is_documented() {
        let page = include_str!("../../../docs/cost.md");
        for column in COLUMNS {
            let needed = if column.needed { "needed" } else { "" };
            let row = format!("| `{}` | {needed} | {} |", column.name, column.doc);
            assert!(page.contains(&row), "docs/cost.md lacks the line {row}");
        }
    }

    #[test]
    fn a_header_is_whole_and_nothing_is_ignored() {
        assert_eq!(check(&Header::new(NAMES).expect("a header")), Ok(()));
        assert_eq!(check(&Header::new(COLUMNS.iter().map(|column| column.name)).expect("a header")), Ok(()));
        let refusal = check(&Header::new(["host_type", "region", "price"]).expect("a header")).expect_err("no price");
        assert_eq!(refusal.0, "columns missing: option, usd_per_hour, effective_from, source; columns unknown: price");
    }
}
