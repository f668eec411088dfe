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
    CAST(newest_cost AS BIGINT) AS newest_us FROM budget_status ORDER BY name";
/// A bill reaches as far as the time of hosts in it does, and nothing stands for a host longer than a month (`node_cost`). What is charged
/// until a day to come reaches until now.
const BILLS: &str = "SELECT provider, CAST(max(imported_at) AS BIGINT) AS imported_us, \
    max(least(CAST(charge_to AS BIGINT), CAST(arrow_cast(now(), 'Timestamp(Microsecond, Some(\"UTC\"))') AS BIGINT))) AS charged_us \
    FROM billing WHERE charge_kind = 'host_time' AND charge_to > time AND charge_to <= time + INTERVAL '32 days' \
    GROUP BY provider ORDER BY provider";

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

const OF_BUDGETS: [Gauges; 9] = [
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

/// What there is to look at.
const FEEDS: [&str; 2] = ["budgets", "bills"];
const ASKED: Declared = Declared {
    name: "tokenwatt_feed_asked_timestamp_seconds",
    kind: "gauge",
    unit: "",
    help: "When budgets and bills were last looked at; 0 before they were.",
};

/// What was found when each of [`FEEDS`] was last looked at. One that cannot be asked keeps what it was and says since when.
#[derive(Debug, Default)]
pub(super) struct Standing {
    found: [String; FEEDS.len()],
    asked_us: [i64; FEEDS.len()],
}

impl Standing {
    /// Takes what was found at an instant.
    pub(super) fn take(&mut self, found: [Option<String>; FEEDS.len()], now_us: i64) {
        for ((old, asked_us), new) in self.found.iter_mut().zip(&mut self.asked_us).zip(found) {
            if let Some(new) = new {
                (*old, *asked_us) = (new, now_us);
            }
        }
    }

    /// All of it as text.
    pub(super) fn render(&self) -> String {
        let mut text = self.found.concat();
        ASKED.head(&mut text);
        for (feed, asked_us) in FEEDS.iter().zip(self.asked_us) {
            sample(&mut text, ASKED.name, "", &[("feed", (*feed).to_owned())], asked_us as f64 / US);
        }
        text
    }
}

/// The gauges of budgets as text; what is unknown is absent.
///
/// # Errors
/// What the query that failed answered.
pub(super) async fn budgets(engine: &Arc<Engine>) -> Result<String, ApiError> {
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
    Ok(text)
}

/// The gauges of bills as text.
///
/// # Errors
/// What the query that failed answered.
pub(super) async fn bills(engine: &Arc<Engine>) -> Result<String, ApiError> {
    let mut text = String::new();
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

#[cfg(test)]
mod tests {
    use super::Standing;

    /// Before anything was asked the time says so; what fails keeps its figures and its time, and does not take the other's away.
    #[test]
    fn what_cannot_be_asked_says_since_when() {
        let mut standing = Standing::default();
        let asked = |feed: &str, seconds: &str| {
            format!("tokenwatt_feed_asked_timestamp_seconds{{feed=\"{feed}\"}} {seconds}\n")
        };
        assert!(standing.render().ends_with(&(asked("budgets", "0") + &asked("bills", "0"))));
        standing.take([Some("a 1\n".to_owned()), Some("b 1\n".to_owned())], 5_000_000);
        standing.take([Some("a 2\n".to_owned()), None], 9_000_000);
        let text = standing.render();
        assert!(text.starts_with("a 2\nb 1\n"), "{text}");
        assert!(text.ends_with(&(asked("budgets", "9") + &asked("bills", "5"))), "{text}");
    }
}
