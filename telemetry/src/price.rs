//! The price book: what a host costs per hour, by region and purchase option, from a date on.

pub mod discount;
pub mod list;
pub mod rate;

use std::sync::LazyLock;

use serde::Deserialize;

use crate::{dated, unit::Usd};

/// One dated price of one host type.
#[derive(Clone, Debug, PartialEq)]
pub struct Price {
    /// Instance type, such as `inf2.48xlarge`.
    pub host_type: String,
    /// Cloud region.
    pub region: String,
    /// Availability zone, where the price is not regional.
    pub zone: Option<String>,
    /// `on_demand`, `spot`, `savings_plan`, `reserved`, `capacity_block` or `custom`. `spot_min_az` and `spot_max_az` span the
    /// zones for display and are never the price of a host.
    pub option: String,
    /// Price of the whole host an hour, in `currency`.
    pub per_hour: Usd,
    /// ISO 4217 code; `USD` of all that comes with Tokenwatt.
    pub currency: String,
    /// First instant at which it holds, µs since the epoch.
    pub effective_from_us: i64,
    /// First instant at which it no longer holds, µs since the epoch; `None` while it is open.
    pub effective_to_us: Option<i64>,
    /// Where it was read.
    pub source: String,
    /// When the source was current, as it says.
    pub as_of: String,
    /// `measured`, `published`, `secondary`, `undated_source`, `estimated` or `assumed`, from firm to weak.
    pub confidence: String,
    /// Anything worth knowing.
    pub note: Option<String>,
}

/// Purchase options under which a host can be priced.
pub const OPTIONS: [&str; 6] = ["on_demand", "spot", "savings_plan", "reserved", "capacity_block", "custom"];

#[derive(Deserialize)]
struct Row {
    instance_type: String,
    region: String,
    purchase_option: String,
    usd_per_hour: String,
    as_of: String,
    confidence: String,
    source: String,
}

static BUNDLED: LazyLock<Vec<Price>> = LazyLock::new(|| {
    dated::rows::<Row>(include_str!("../../data/price_extract.csv")).filter_map(Price::from_row).collect()
});

/// Prices that come with Tokenwatt. Rows of an operator's own price books outrank them.
pub fn bundled() -> &'static [Price] {
    &BUNDLED
}

/// The price of a host at an instant: the newest row in force; of two from one date the firmer one. `None` is "no price",
/// never zero and never a default.
pub fn at<'a>(prices: &'a [Price], host_type: &str, region: &str, option: &str, instant_us: i64) -> Option<&'a Price> {
    prices
        .iter()
        .filter(|price| price.host_type == host_type && price.region == region && price.option == option)
        .filter(|price| price.effective_from_us <= instant_us && price.effective_to_us.is_none_or(|to| to > instant_us))
        .max_by_key(|price| (price.effective_from_us, firmness(&price.confidence)))
}

fn firmness(confidence: &str) -> u8 {
    match confidence {
        "published" => 2,
        "secondary" => 1,
        _ => 0,
    }
}

impl Price {
    fn from_row(row: Row) -> Option<Price> {
        let confidence = if row.confidence == "dated" { "published".to_owned() } else { row.confidence };
        Some(Price {
            effective_from_us: dated::start_of(&row.as_of)?,
            effective_to_us: None,
            host_type: row.instance_type,
            region: row.region,
            zone: None,
            option: row.purchase_option,
            per_hour: row.usd_per_hour.parse().ok()?,
            currency: "USD".to_owned(),
            source: row.source,
            as_of: row.as_of,
            confidence,
            note: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{at, bundled};
    use crate::dated;

    const LATE_2026: i64 = 1_796_000_000_000_000;

    /// A row without a price says that there is none, and is no price.
    #[test]
    fn every_bundled_row_with_a_price_is_understood() {
        let rows = include_str!("../../data/price_extract.csv").lines().skip(1);
        let priced = rows.filter(|row| row.split(',').nth(3) != Some("")).count();
        assert_eq!(bundled().len(), priced);
    }

    #[test]
    fn the_firmer_of_two_rows_of_one_date_is_taken() {
        let price = at(bundled(), "inf2.48xlarge", "us-east-1", "on_demand", LATE_2026).expect("priced");
        assert_eq!((price.per_hour.to_string().as_str(), price.confidence.as_str()), ("12.981270000000", "published"));
    }

    #[test]
    fn no_price_is_invented() {
        assert_eq!(at(bundled(), "custom-npu.8x", "us-east-1", "on_demand", LATE_2026), None);
        assert_eq!(at(bundled(), "trn1.32xlarge", "eu-west-1", "on_demand", LATE_2026), None);
        let before = dated::start_of("2020").expect("a year");
        assert_eq!(
            at(bundled(), "inf2.48xlarge", "us-east-1", "on_demand", before),
            None,
            "a price holds from its date on"
        );
    }
}
