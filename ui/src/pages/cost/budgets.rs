//! Budgets and how they stand now, whatever range the page shows.

use leptos::prelude::*;
use viz::bar::Part;
use viz::format::{self, Unit};

use crate::ask::{Answer, Asked, Row};
use crate::pages::requests::stamp;
use crate::panel::{answered, heads, number, panel_of_now, shares, table, text, words};
use crate::server::Visit;

/// The fullest first.
pub(super) const SQL: &str = "SELECT name, allocation_key, allocation_value, period, enforcement, period_end, budget_usd, spent_usd, share,\n  burn_usd_per_day, forecast_usd, forecast_low_usd, forecast_high_usd, exhausted_at, status, basis, price_as_of\nFROM budget_status\nORDER BY share DESC NULLS LAST";

/// The panel; nothing where there are no budgets.
pub(super) fn panel_of(visit: &Visit, asked: &Asked) -> Option<AnyView> {
    if matches!(&asked.outcome, Ok(answer) if answer.first().is_none()) {
        return None;
    }
    let note = "of their own periods, now; the forecast is what is spent and for each day left the mean of its weekday in four weeks";
    Some(panel_of_now("budgets", "Budgets", note, &[asked], answered(visit, asked, view)))
}

fn view(answer: &Answer) -> AnyView {
    let lines: Vec<_> = answer.rows().map(|row| line(&row)).collect();
    let names =
        ["budget", "of", "state", "#limit", "#spent", "", "#of it", "#a day", "#forecast", "used up (UTC)", "basis"];
    table("Budgets", heads(&names), lines.into_any())
}

fn line(row: &Row<'_>) -> AnyView {
    let named = |column: &str| row.text(column).unwrap_or(format::UNKNOWN).to_owned();
    let status = named("status");
    let class = match status.as_str() {
        "within" => "status ok",
        "over" => "status error",
        status if status.starts_with("nothing") || status.starts_with("silent") => "status frozen",
        _ => "status warn",
    };
    let share = row.number("share");
    let style = if share.is_some_and(|share| share >= 1.0) { "failed" } else { "left" };
    let usd = |column: &str| format::text(row.number(column), Unit::Usd);
    // Of a budget that is younger than its rates nobody knows how far they swing.
    let band = row.number("forecast_low_usd").zip(row.number("forecast_high_usd"));
    let band = band.map(|_| format!("{} to {}", usd("forecast_low_usd"), usd("forecast_high_usd")));
    let band = band.map(|band| view! { <small>{band}</small> });
    view! {
        <tr>
            <th scope="row">{named("name")}<small>{format!("per {}, {}", named("period"), named("enforcement"))}</small></th>
            <td>{named("allocation_value")}<small>{named("allocation_key")}</small></td>
            <td><span class=class>{status}</span></td>
            {number(row.number("budget_usd"), Unit::Usd)}
            {number(row.number("spent_usd"), Unit::Usd)}
            {shares(&[Part { name: "spent", share: share.unwrap_or(0.0).clamp(0.0, 1.0), style }])}
            {number(share, Unit::Ratio)}
            {number(row.number("burn_usd_per_day"), Unit::Usd)}
            <td class="num">{usd("forecast_usd")}{band}</td>
            {text(row.time("exhausted_at").map(minute).as_deref())}
            {words(row.text("basis"))}
        </tr>
    }
    .into_any()
}

/// Day and time of day to the minute: a forecast knows no more.
fn minute(at_us: i64) -> String {
    stamp(at_us).chars().take("01-31 12:00".len()).collect()
}
