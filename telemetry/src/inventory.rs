//! Hosts as whoever pays for them lists them, whether or not anything is heard of them.

use crate::list::{self, AS_OF, CONFIDENCE, Dated, FROM, ListColumn, NOTE, SOURCE, TO, column};
use crate::price::OPTIONS;
use crate::record::{Record, Refusal};

/// The columns of an inventory, in any order.
pub const COLUMNS: &[ListColumn] = &[
    column("host_id", true, "the host as `host.id` names it, such as `i-0abc`"),
    column("host_type", true, "instance type"),
    column("region", true, "cloud region"),
    column("zone", false, "availability zone"),
    column("option", false, "purchase option; priced as on-demand, which is said, where it is left out"),
    column("account", false, "account that pays"),
    column("chips", false, "accelerator chips in it"),
    ListColumn { doc: "when it was there first: a date or RFC 3339", ..FROM },
    ListColumn { doc: "when it was there no longer; empty while it is", ..TO },
    SOURCE,
    AS_OF,
    CONFIDENCE,
    NOTE,
];

/// Chips of the largest host there is, with room.
const CHIPS_MAX: i64 = 10_000;

/// A host and the time in which it was there.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// The host.
    pub host_id: String,
    /// Instance type.
    pub host_type: String,
    /// Cloud region.
    pub region: String,
    /// Availability zone.
    pub zone: Option<String>,
    /// Purchase option, where it is known.
    pub option: Option<String>,
    /// Account that pays.
    pub account: Option<String>,
    /// Accelerator chips.
    pub chips: Option<i64>,
    /// When it was there, and who says so.
    pub dated: Dated,
}

impl Listed {
    /// Reads a row.
    ///
    /// # Errors
    /// Why it is no host.
    pub fn read(record: Record<'_>) -> Result<Listed, Refusal> {
        let text = |name: &str| record.get(name).map(str::to_owned);
        let chips = |text: &str| match text.parse::<i64>() {
            Ok(chips) if (0..=CHIPS_MAX).contains(&chips) => Ok(chips),
            _ => Err(Refusal(format!("`chips` is {text:?}, not a number of chips"))),
        };
        Ok(Listed {
            host_id: record.need("host_id")?.to_owned(),
            host_type: record.need("host_type")?.to_owned(),
            region: record.need("region")?.to_owned(),
            zone: text("zone"),
            option: record.get("option").map(|text| list::one_of("option", text, &OPTIONS)).transpose()?,
            account: text("account"),
            chips: record.get("chips").map(chips).transpose()?,
            dated: Dated::read(record)?,
        })
    }

    /// Whether two rows are of one host at the same instant.
    pub fn clashes(&self, other: &Listed) -> bool {
        self.host_id == other.host_id && self.dated.overlaps(&other.dated)
    }
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, Listed};
    use crate::list::fixture;

    const NAMES: [&str; 7] = ["host_id", "host_type", "region", "option", "chips", "effective_from", "source"];
    const GOOD: [&str; 7] = ["i-1", "p5.48xlarge", "us-east-1", "reserved", "8", "2026-01-01", "asset list"];

    fn read(values: [&str; 7]) -> Result<Listed, String> {
        fixture::row(Listed::read, NAMES, values)
    }

    #[test]
    fn a_host_is_there_from_a_date_on() {
        let host = read(GOOD).expect("a host");
        assert_eq!((host.option.as_deref(), host.chips, host.dated.to_us), (Some("reserved"), Some(8), None));
        let wrong = [
            (0, "", "`host_id` is missing"),
            (3, "rented", "not one of on_demand"),
            (4, "many", "not a number of chips"),
        ];
        fixture::refuses(Listed::read, NAMES, GOOD, &wrong);
    }

    /// docs/cost.md says what can be written, in the words of [`COLUMNS`].
    #[test]
    fn every_column_is_documented() {
        fixture::documents("docs/cost.md", include_str!("../../docs/cost.md"), COLUMNS);
    }
}
