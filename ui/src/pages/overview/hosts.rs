//! Kinds of hosts, how many there are, and what one of them costs.

use leptos::prelude::*;
use viz::format::{self, Unit};

use crate::ask::{Answer, Row};
use crate::panel::number;

pub(super) fn view(answer: &Answer) -> AnyView {
    if answer.first().is_none() {
        return view! { <p class="hint">"No host has sent a sample in this range."</p> }.into_any();
    }
    let lines: Vec<_> = answer.rows().map(|row| line(&row)).collect();
    view! {
        <div class="scroll" tabindex="0" role="region" aria-label="Kinds of hosts">
            <table class="list">
                <thead><tr>
                    <th>"region"</th><th>"host type"</th><th class="num">"hosts"</th><th class="num">"each, per hour"</th>
                    <th>"basis"</th><th>"price as of"</th>
                </tr></thead>
                <tbody>{lines}</tbody>
            </table>
        </div>
    }
    .into_any()
}

fn line(row: &Row<'_>) -> AnyView {
    let text = |column: &str| row.text(column).unwrap_or(format::UNKNOWN).to_owned();
    let price = row.number("usd_per_hour");
    let basis = match price {
        Some(_) => view! { <td>{text("basis")}</td> }.into_any(),
        None => view! { <td class="warn">{format!("no price for {}", text("host_type"))}</td> }.into_any(),
    };
    view! {
        <tr>
            <th scope="row">{text("region")}</th>
            <td>{text("host_type")}</td>
            {number(row.number("hosts"), Unit::Count)}
            {number(price, Unit::UsdPerHour)}
            {basis}
            <td>{text("price_as_of")}</td>
        </tr>
    }
    .into_any()
}
