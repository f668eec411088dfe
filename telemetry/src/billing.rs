//! Bills: what a row of a FOCUS or AWS CUR 2.0 export says, as one kind of charge.
//!
//! ```text
//! header ─► format (FOCUS 1.0–1.4, CUR 2.0) ─► record ─► charge, or a refusal, or left out on purpose
//! ```

mod amount;
mod cur;
mod focus;
mod host;
mod provider;

use std::collections::BTreeMap;

pub use amount::{Carry, Exact, NotAmount};

use crate::record::{Header, Record, Refusal};

/// One charge of a bill.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Charge {
    /// Who provided the service; `AWS` however the bill spells it.
    pub provider: String,
    /// Billing account.
    pub account: String,
    /// Sub account.
    pub sub_account: Option<String>,
    /// Region.
    pub region: Option<String>,
    /// Availability zone.
    pub zone: Option<String>,
    /// Resource charged, as the bill names it.
    pub resource_id: Option<String>,
    /// The host that the resource is, as `host.id` names it.
    pub host_id: Option<String>,
    /// Instance type.
    pub host_type: Option<String>,
    /// Start of the charge period, µs since the epoch.
    pub from_us: i64,
    /// End of the charge period, exclusive, µs since the epoch.
    pub to_us: i64,
    /// Billing period, `YYYY-MM`.
    pub period: String,
    /// `usage`, `purchase`, `tax`, `credit` or `adjustment`.
    pub category: Option<String>,
    /// `correction`, where the row restates an earlier bill.
    pub class: Option<String>,
    /// What was charged, in the bill's words.
    pub description: Option<String>,
    /// Service.
    pub service: Option<String>,
    /// Savings plan or reservation applied.
    pub commitment_id: Option<String>,
    /// Its kind, in the bill's words.
    pub commitment_type: Option<String>,
    /// `used` or `unused`.
    pub commitment_status: Option<String>,
    /// `standard`, `committed`, `dynamic` or `other`.
    pub pricing_category: Option<String>,
    /// Purchase option, one of [`crate::price::OPTIONS`], where the bill says it.
    pub option: Option<String>,
    /// Whether it is the time of the host itself, not something charged beside it.
    pub is_host_time: bool,
    /// Quantity in pricing units.
    pub quantity: Option<f64>,
    /// Pricing unit.
    pub unit: Option<String>,
    /// ISO 4217 code of all costs.
    pub currency: String,
    /// At list price.
    pub list: Option<Exact>,
    /// At negotiated price.
    pub contracted: Option<Exact>,
    /// Amortised.
    pub effective: Option<Exact>,
    /// Invoiced.
    pub billed: Option<Exact>,
    /// Tags of the resource.
    pub tags: BTreeMap<String, String>,
    /// Columns of the bill that have no field here, and amounts with more decimals than are stored.
    pub attributes: BTreeMap<String, String>,
    /// What of the row could not be understood and is kept as it was written, for the import's report.
    pub notes: Vec<&'static str>,
}

impl Charge {
    /// What a later export replaces as a whole: the bill of one account for one period.
    pub fn bill(&self) -> String {
        format!("{}{}", self.provider, self.account_and_period())
    }

    /// The end of [`Charge::bill`], which is the same whatever its provider is called.
    pub fn account_and_period(&self) -> String {
        format!("/{}/{}", self.account, self.period)
    }
}

/// Longest charge period that is believed: no commitment is sold for more than five years.
const CHARGE_DAYS_MAX: i64 = 5 * 366;
const DAY_US: i64 = 86_400_000_000;

/// A layout of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// FOCUS, of the minor version of 1 that its columns fit: FOCUS files do not name their version.
    Focus(u8),
    /// AWS Cost and Usage Report 2.0.
    Cur2,
}

/// What became of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Read {
    /// A charge.
    Charge(Box<Charge>),
    /// No charge of its own, on purpose; the word says why.
    LeftOut(&'static str),
}

impl Format {
    /// The format that the columns are of.
    ///
    /// # Errors
    /// None that is known, or one that lacks columns which every row needs.
    pub fn of(header: &Header) -> Result<Format, Refusal> {
        let lacks = |needed: &[&'static str]| {
            let missing: Vec<_> = needed.iter().filter(|name| !header.has(name)).copied().collect();
            if missing.is_empty() { Ok(()) } else { Err(Refusal(format!("columns missing: {}", missing.join(", ")))) }
        };
        if header.has("line_item_line_item_type") {
            return lacks(cur::NEEDED).map(|()| Format::Cur2);
        }
        if header.has("BilledCost") {
            return lacks(focus::NEEDED).map(|()| Format::Focus(focus::minor(header)));
        }
        if header.has("lineItem/LineItemType") {
            let legacy = "this is a legacy CUR; export CUR 2.0 or FOCUS instead (AWS Data Exports)";
            return Err(Refusal(legacy.to_owned()));
        }
        let unknown = "neither FOCUS (column `BilledCost`) nor AWS CUR 2.0 (column `line_item_line_item_type`)";
        Err(Refusal(unknown.to_owned()))
    }

    /// Reads a row.
    ///
    /// # Errors
    /// Why it is no charge.
    pub fn read(self, record: Record<'_>) -> Result<Read, Refusal> {
        match self {
            Format::Focus(_) => focus::read(record),
            Format::Cur2 => cur::read(record),
        }
    }

    /// As people call it.
    pub fn name(self) -> String {
        match self {
            Format::Focus(minor) => format!("FOCUS 1.{minor}"),
            Format::Cur2 => "AWS CUR 2.0".to_owned(),
        }
    }
}

/// The charge period, whose end lies behind its start.
fn charge_period(record: Record<'_>, from: &str, to: &str) -> Result<(i64, i64), Refusal> {
    let from_us = crate::record::need_instant(record, from)?;
    let to_us = crate::record::need_instant(record, to)?;
    if to_us <= from_us {
        return Err(Refusal(format!("`{to}` is not after `{from}`")));
    }
    let days = to_us.saturating_sub(from_us) / DAY_US;
    if days > CHARGE_DAYS_MAX {
        return Err(Refusal(format!(
            "`{to}` is {days} days after `{from}`, and no charge is for more than {CHARGE_DAYS_MAX} (five years, the longest commitment \
             sold): correct the two dates in the export, or import the other rows with --skip-refused"
        )));
    }
    Ok((from_us, to_us))
}

/// `YYYY-MM`, in UTC, of the start of the billing period.
fn billing_period(record: Record<'_>, name: &str) -> Result<String, Refusal> {
    let start_us = crate::record::need_instant(record, name)?;
    let month = crate::record::month(start_us).and_then(|(month, _)| month.get(..7).map(str::to_owned));
    month.ok_or_else(|| Refusal(format!("`{name}` is beyond the calendar")))
}

/// The amount in that column, if there is one.
fn amount(record: Record<'_>, name: &str) -> Result<Option<Exact>, Refusal> {
    let Some(text) = record.get(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|error: NotAmount| Refusal(format!("`{name}`: {error}")))
}

/// The amount in a column that must have one.
fn need_amount(record: Record<'_>, name: &str) -> Result<Option<Exact>, Refusal> {
    record.need(name)?;
    amount(record, name)
}

/// The number in that column, if there is one.
fn number(record: Record<'_>, name: &str) -> Result<Option<f64>, Refusal> {
    let Some(text) = record.get(name) else { return Ok(None) };
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(Some(number)),
        _ => Err(Refusal(format!("`{name}` is {text:?}, not a number"))),
    }
}

/// Fields that a charge has no place for, and amounts whose last decimals a stored one cannot hold.
fn attributes(record: Record<'_>, placed: &[&str], amounts: &[&str]) -> BTreeMap<String, String> {
    let is_cut = |name: &str, value: &str| {
        amounts.contains(&name) && value.parse::<Exact>().is_ok_and(|amount| !amount.is_storable())
    };
    let kept = record.fields().filter(|(name, value)| !placed.contains(name) || is_cut(name, value));
    kept.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A JSON object of tags; `None` where it is something else.
fn tags(text: &str) -> Option<BTreeMap<String, String>> {
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).ok()?;
    let plain = |value: serde_json::Value| match value {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    Some(object.into_iter().map(|(key, value)| (key, plain(value))).collect())
}

#[cfg(test)]
mod tests;
