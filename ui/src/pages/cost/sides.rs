//! The estimate beside what is on bills: list, effective and billed cost of the range, what explains the difference, and months as a whole.

use leptos::prelude::*;
use viz::format::{self, Unit};

use crate::ask::{Answer, Asked, Row};
use crate::panel::{answered, heads, number, panel, panel_of_now, table, words};
use crate::server::Visit;
use crate::sql::Where;

/// Each of the three, and of how much of the estimate it is known.
const SIDES: [(&str, &str); 3] =
    [("list_cost_usd", "list"), ("effective_cost_usd", "effective"), ("billed_cost_usd", "billed")];

/// Months to date and last; of the whole fleet, whatever range the page shows.
pub(super) const MONTHS: &str = "SELECT period, max(known_until) AS known_until, sum(cost_usd) AS cost_usd, sum(idle_cost_usd) AS idle_cost_usd,\n  sum(list_cost_usd) AS list, sum(effective_cost_usd) AS effective, sum(billed_cost_usd) AS billed,\n  sum(CAST(cost_usd AS DOUBLE) * list_share) AS of_list, sum(CAST(cost_usd AS DOUBLE) * effective_share) AS of_effective, sum(CAST(cost_usd AS DOUBLE) * billed_share) AS of_billed,\n  string_agg(DISTINCT basis, ', ') AS basis, min(oldest_price_as_of) AS price_as_of\nFROM cost_per_month\nWHERE period IS NOT NULL\nGROUP BY time, period\nORDER BY time DESC";

/// By region, in the range of the page.
pub(super) fn regions_sql(clause: &Where) -> String {
    let sides = SIDES.map(|(column, name)| {
        format!("sum({column}) AS {name}, sum(CASE WHEN {column} IS NOT NULL THEN cost_usd END) AS of_{name}")
    });
    format!(
        "SELECT region, sum(cost_usd) AS cost_usd,\n  {},\n  string_agg(DISTINCT basis, ', ') AS basis, min(oldest_price_as_of) AS price_as_of\nFROM cost_per_region\n{}\nGROUP BY region\nORDER BY cost_usd DESC NULLS LAST",
        sides.join(",\n  "),
        clause.clause()
    )
}

/// The estimate held against the bill, by what explains the difference.
pub(super) fn bills_sql(clause: &Where) -> String {
    format!(
        "SELECT finding, count(DISTINCT host_id) AS hosts, sum(estimated_usd) AS estimated, sum(unseen_usd) AS unseen, sum(unexplained_usd) AS unexplained,\n  sum(discount_usd) AS discount, sum(effective_usd) AS effective, sum(timing_usd) AS timing, sum(billed_usd) AS billed,\n  string_agg(DISTINCT basis, ', ') AS basis, min(price_as_of) AS price_as_of, max(imported_at) AS imported_at\nFROM bill_by_host\n{}\nGROUP BY finding\nORDER BY effective DESC NULLS LAST",
        clause.clause()
    )
}

pub(super) fn regions(visit: &Visit, asked: &Asked) -> AnyView {
    let body = answered(visit, asked, |answer| {
        let lines: Vec<_> =
            answer.rows().map(|row| line(&row, row.text("region").unwrap_or("no region").to_owned(), None)).collect();
        sides_table("Estimate, list, effective and billed", "region", lines)
    });
    let note = "of minutes whose cost is known as a whole; below each, of how much of the estimate it is";
    panel("sides", "Estimate beside list, effective and billed cost", note, &[asked], body)
}

pub(super) fn months(visit: &Visit, asked: &Asked) -> AnyView {
    let body = answered(visit, asked, |answer| {
        let lines: Vec<_> = answer
            .rows()
            .map(|row| {
                let idle = format!("padding and idle {}", format::text(row.number("idle_cost_usd"), Unit::Usd));
                line(&row, row.text("period").unwrap_or(format::UNKNOWN).to_owned(), Some(idle))
            })
            .collect();
        sides_table("Months", "month", lines)
    });
    panel_of_now("months", "Months of the whole fleet", "calendar months, UTC; all regions and models", &[asked], body)
}

fn sides_table(label: &'static str, first: &str, lines: Vec<AnyView>) -> AnyView {
    table(
        label,
        heads(&[first, "#estimate", "#list", "#effective", "#billed", "basis of the estimate"]),
        lines.into_any(),
    )
}

fn line(row: &Row<'_>, name: String, more: Option<String>) -> AnyView {
    let whole = row.number("cost_usd");
    let side = |(_, side): (&str, &str)| {
        let known = row
            .number(&format!("of_{side}"))
            .zip(whole.filter(|whole| *whole > 0.0))
            .map(|(known, whole)| known / whole);
        let of = known.map(|share| view! { <small>{format!("of {}", format::text(Some(share), Unit::Ratio))}</small> });
        view! { <td class="num">{format::text(row.number(side), Unit::Usd)}{of}</td> }
    };
    let as_of = row.text("price_as_of").map(|day| view! { <small>{format!("prices as of {day}")}</small> });
    view! {
        <tr>
            <th scope="row">{name}<small>{more}</small></th>
            {number(whole, Unit::Usd)}
            {SIDES.map(side).collect_view()}
            <td class="say">{row.text("basis").unwrap_or(format::UNKNOWN).to_owned()}{as_of}</td>
        </tr>
    }
    .into_any()
}

/// What the bill says of hosts in the range, beside the estimate; nothing without a bill.
pub(super) fn bills(visit: &Visit, asked: &Asked) -> Option<AnyView> {
    let has_bill = |answer: &Answer| {
        answer.rows().any(|row| row.text("imported_at").is_some() || row.time("imported_at").is_some())
    };
    if matches!(&asked.outcome, Ok(answer) if !has_bill(answer)) {
        return None;
    }
    let body = answered(visit, asked, |answer| {
        let lines: Vec<_> = answer.rows().map(|row| finding(&row)).collect();
        let names = [
            "finding",
            "#hosts",
            "#estimate",
            "#+ unseen",
            "#+ unexplained",
            "#− discount",
            "#= effective",
            "#+ timing",
            "#= billed",
            "basis",
        ];
        table("The estimate held against the bill", heads(&names), lines.into_any())
    });
    let note = "charge periods that begin in the whole hours of the range; estimate = price × time seen";
    Some(panel("bills", "The estimate held against the bill", note, &[asked], body))
}

fn finding(row: &Row<'_>) -> AnyView {
    let columns = ["estimated", "unseen", "unexplained", "discount", "effective", "timing", "billed"];
    view! {
        <tr>
            <th scope="row">{row.text("finding").unwrap_or(format::UNKNOWN).to_owned()}</th>
            {number(row.number("hosts"), Unit::Count)}
            {columns.map(|column| number(row.number(column), Unit::Usd)).collect_view()}
            {words(row.text("basis"))}
        </tr>
    }
    .into_any()
}
