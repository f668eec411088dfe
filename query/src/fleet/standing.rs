//! How budgets stand and how far bills reach, as gauges, asked once in five minutes: both move by the hour, and a budget looks back
//! over months.
//!
//! A label names the budget, never whom it is of: tenants are in no series.

use std::sync::Arc;

use telemetry::contract::{ApiError, SqlAnswer};

use super::measure::{Row, Rows, ask};
use super::series::{Declared, Labels, sample};
use crate::execute::Engine;

/// What there is of budgets; without any the view, which reads months of hours, is not asked.
const KNOWN: &str = "SELECT count(*) AS budgets FROM budgets";
const BUDGETS: &str = "SELECT name, allocation_key, enforcement, budget_usd, spent_usd, last_period_usd, burn_usd_per_day, \
    forecast_usd, forecast_low_usd, forecast_high_usd, day_ratio, unpriced_hours, CAST(exhausted_at AS BIGINT) AS exhausted_us, \
    CAST(newest_cost AS BIGINT) AS newest_us, CAST(as_of AS BIGINT) AS as_of_us FROM budget_status ORDER BY name";
/// A bill reaches as far as the time of hosts in it does; a fee may be charged until a day to come.
const BILLS: &str = "SELECT provider, CAST(max(charge_to) AS BIGINT) AS charged_us, CAST(max(imported_at) AS BIGINT) AS imported_us \
    FROM billing WHERE charge_kind = 'host_time' GROUP BY provider ORDER BY provider";

/// A family of gauges: how it is called, what it means, and the columns it comes from, each with its label.
struct Gauges {
    declared: Declared,
    columns: &'static [(&'static str, Option<(&'static str, &'static str)>)],
    /// What the columns' numbers are divided by.
    per: f64,
}

const fn gauges(
    name: &'static str,
    help: &'static str,
    columns: &'static [(&'static str, Option<(&'static str, &'static str)>)],
    per: f64,
) -> Gauges {
    Gauges { declared: Declared { name, kind: "gauge", unit: "", help }, columns, per }
}

const US: f64 = 1e6;

const OF_BUDGETS: [Gauges; 10] = [
    gauges("tokenwatt_budget_limit_usd", "Limit of a budget per period.", &[("budget_usd", None)], 1.0),
    gauges(
        "tokenwatt_budget_spent_usd",
        "Cost in the budget's period so far: of the bill where there is one, else the estimate.",
        &[("spent_usd", None)],
        1.0,
    ),
    gauges(
        "tokenwatt_budget_last_period_usd",
        "Cost of the calendar period before, whole.",
        &[("last_period_usd", None)],
        1.0,
    ),
    gauges("tokenwatt_budget_burn_usd_per_day", "Cost of the last 24 hours.", &[("burn_usd_per_day", None)], 1.0),
    gauges(
        "tokenwatt_budget_day_ratio",
        "Cost of the last 24 hours over the mean of the seven days before.",
        &[("day_ratio", None)],
        1.0,
    ),
    gauges(
        "tokenwatt_budget_forecast_usd",
        "Cost at the end of the period: at the present burn, at the cheapest and at the dearest of the last seven days.",
        &[
            ("forecast_usd", Some(("band", "expected"))),
            ("forecast_low_usd", Some(("band", "low"))),
            ("forecast_high_usd", Some(("band", "high"))),
        ],
        1.0,
    ),
    gauges(
        "tokenwatt_budget_exhausted_timestamp_seconds",
        "When the limit is reached at the present burn; absent where that is after the period.",
        &[("exhausted_us", None)],
        US,
    ),
    gauges(
        "tokenwatt_budget_unpriced_hours",
        "Hours of the period in which some of the budget's cost has no price.",
        &[("unpriced_hours", None)],
        1.0,
    ),
    gauges(
        "tokenwatt_budget_newest_cost_timestamp_seconds",
        "Newest hour in which the budget's key cost something; absent where there is none.",
        &[("newest_us", None)],
        US,
    ),
    gauges("tokenwatt_budget_as_of_timestamp_seconds", "When the budget was looked at.", &[("as_of_us", None)], US),
];

const OF_BILLS: [Gauges; 2] = [
    gauges(
        "tokenwatt_billing_charged_until_timestamp_seconds",
        "End of the newest time of a host in the bills of a provider.",
        &[("charged_us", None)],
        US,
    ),
    gauges(
        "tokenwatt_billing_imported_timestamp_seconds",
        "When a bill of a provider was last imported.",
        &[("imported_us", None)],
        US,
    ),
];

/// The gauges as text; what is unknown is absent.
///
/// # Errors
/// What the first query that failed answered.
pub(super) async fn text(engine: &Arc<Engine>) -> Result<String, ApiError> {
    let mut text = String::new();
    let known = ask(engine, KNOWN).await?;
    if Rows::of(&known).any(|row| row.number("budgets").is_some_and(|count| count > 0.0)) {
        let budgets = ask(engine, BUDGETS).await?;
        let labels = |row: &Row<'_>| {
            let [name, key, enforcement] = ["name", "allocation_key", "enforcement"].map(|column| row.text(column));
            vec![("budget", name), ("key", key), ("enforcement", enforcement)]
        };
        OF_BUDGETS.iter().for_each(|gauges| gauges.write(&budgets, labels, &mut text));
    }
    let bills = ask(engine, BILLS).await?;
    let labels = |row: &Row<'_>| vec![("provider", row.text("provider"))];
    OF_BILLS.iter().for_each(|gauges| gauges.write(&bills, labels, &mut text));
    Ok(text)
}

impl Gauges {
    fn write(&self, answer: &SqlAnswer, labels: impl Fn(&Row<'_>) -> Labels, text: &mut String) {
        let values = |row: Row<'_>| {
            let known = |(column, label): &(&str, Option<(&'static str, &str)>)| {
                let value = row.number(column)? / self.per;
                let more = label.map(|(name, value)| (name, value.to_owned()));
                Some((labels(&row).into_iter().chain(more).collect::<Labels>(), value))
            };
            self.columns.iter().filter_map(known).collect::<Vec<_>>()
        };
        let samples: Vec<_> = Rows::of(answer).flat_map(values).collect();
        if samples.is_empty() {
            return;
        }
        self.declared.head(text);
        for (labels, value) in samples {
            sample(text, self.declared.name, "", &labels, value);
        }
    }
}
