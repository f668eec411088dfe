//! Hosts and what each is paid by the hour, those without a price first.

use leptos::prelude::*;
use viz::format::{self, Unit};

use crate::ask::Answer;
use crate::panel::{heads, number, table, text};
use crate::sql::Where;

pub(super) fn sql(clause: &Where) -> String {
    format!(
        "SELECT region, host_type, \"option\", count(DISTINCT host_id) AS hosts, max(usd_per_hour) AS usd_per_hour, sum(cost_usd) AS cost_usd,\n  string_agg(DISTINCT basis, ', ') AS basis, max(price_as_of) AS price_as_of, max(price_source) AS price_source\nFROM node_cost\n{}\nGROUP BY region, host_type, \"option\"\nORDER BY cost_usd DESC NULLS FIRST",
        clause.clause()
    )
}

pub(super) fn view(answer: &Answer) -> AnyView {
    let lines: Vec<_> = answer
        .rows()
        .map(|row| {
            let price = row.number("usd_per_hour");
            let basis = match price {
                Some(_) => text(row.text("basis")),
                None => {
                    let words = format!("no price for {}", row.text("host_type").unwrap_or("an unknown type"));
                    view! { <td class="warn">{words}</td> }.into_any()
                }
            };
            let source = row.text("price_source").unwrap_or(format::UNKNOWN).to_owned();
            let as_of = row.text("price_as_of").map(|day| view! { <small>{format!("as of {day}")}</small> });
            view! {
                <tr>
                    <th scope="row">{row.text("region").unwrap_or("no region").to_owned()}</th>
                    <td>{row.text("host_type").unwrap_or(format::UNKNOWN).to_owned()}<small>{row.text("option").map(str::to_owned)}</small></td>
                    {number(row.number("hosts"), Unit::Count)}
                    {number(price, Unit::UsdPerHour)}
                    {number(row.number("cost_usd"), Unit::Usd)}
                    {basis}
                    <td class="say">{source}{as_of}</td>
                </tr>
            }
        })
        .collect();
    let names = ["region", "hardware", "#hosts", "#each, per hour", "#cost", "basis", "source of the price"];
    table("Hosts and their prices", heads(&names), lines.into_any())
}
