//! One row per region, all numbers side by side.

use leptos::prelude::*;
use viz::format::{self, Unit};

use super::Asks;
use super::economy::Figures;
use crate::ask::Row;
use crate::pages::silence;
use crate::panel::{failed, number};
use crate::server::Visit;
use crate::urlstate::{Dimension, Scope, path};

pub(super) fn view(visit: &Visit, scope: &Scope, asks: &Asks) -> AnyView {
    let failures: Vec<_> = asks
        .all()
        .into_iter()
        .filter_map(|asked| asked.outcome.as_ref().err().map(|failure| failed(visit, failure, &asked.sql)))
        .collect();
    let lines: Vec<_> = regions(asks).into_iter().map(|region| line(scope, asks, region)).collect();
    view! {
        {failures}
        <div class="scroll" tabindex="0" role="region" aria-label="Numbers per region">
            <table class="list regions">
                <thead><tr>
                    <th>"region"</th>
                    <th class="num">"TTFT p50"</th><th class="num">"TTFT p99"</th>
                    <th class="num">"output tokens"</th><th class="num">"requests"</th><th class="num">"failed"</th>
                    <th class="num">"utilization"</th><th class="num">"tokens per joule"</th>
                    <th class="num">"cost per hour"</th><th class="num">"per M output"</th>
                </tr></thead>
                <tbody>{lines}</tbody>
            </table>
        </div>
    }
    .into_any()
}

/// Every region that any answer knows; rows without a region are a line of their own.
fn regions(asks: &Asks) -> Vec<Option<String>> {
    let mut names: Vec<Option<String>> = asks.economy.regions().into_iter().map(Some).collect();
    let silent = asks.seen.silent();
    names.extend(silent.iter().filter_map(|(row, _)| Some(Some(row.text("region")?.to_owned()))));
    if let Ok(answer) = &asks.traffic.outcome {
        let of_regions = answer.rows().filter(|row| row.number("total") == Some(0.0));
        names.extend(of_regions.map(|row| row.text("region").map(str::to_owned)));
    }
    names.sort_unstable();
    names.dedup();
    names
}

fn line(scope: &Scope, asks: &Asks, region: Option<String>) -> AnyView {
    let traffic = asks.traffic.outcome.as_ref().ok();
    let row: Option<Row<'_>> = traffic.and_then(|answer| {
        answer.rows().find(|row| row.number("total") == Some(0.0) && row.text("region") == region.as_deref())
    });
    let ttft = asks.first_token();
    let figure = |column: &str, unit| number(row.as_ref().and_then(|row| row.number(column)), unit);
    let figures = region.as_deref().map(|region| asks.economy.of(Some(region))).unwrap_or_default();
    let no_price = region.as_deref().and_then(|region| figures.no_price(region));
    let left_out = no_price.as_ref().map(|_| "hosts without a price left out".to_owned());
    let silent = region.as_deref().and_then(|region| asks.seen.region(region));
    let silent = silent.map(|since| view! { <small class="warn">{silence::words(since)}</small> });
    let name = match region {
        Some(region) => {
            let link = scope.with(Dimension::Region, None).link(&path(&["region", &region]));
            view! { <a href=link>{region}</a> }.into_any()
        }
        None => view! { <span class="null">"no region"</span> }.into_any(),
    };
    view! {
        <tr>
            <th scope="row">{name}{silent}</th>
            {figure(&ttft.column("p50"), Unit::Seconds)}
            {slow_first_token(row.as_ref().and_then(|row| row.number(&ttft.column("p99"))))}
            {figure("output_tokens_per_s", Unit::TokensPerSecond)}
            {figure("requests_per_s", Unit::RequestsPerSecond)}
            {figure("error_ratio", Unit::Ratio)}
            {number(figures.utilization, Unit::Ratio)}
            {efficiency(&figures)}
            {money(figures.usd_per_hour, Unit::UsdPerHour, no_price.clone())}
            {money(figures.usd_per_million, Unit::Usd, left_out)}
        </tr>
    }
    .into_any()
}

/// Over the limit in colour and with a sign, since colour alone tells some readers nothing.
fn slow_first_token(value: Option<f64>) -> AnyView {
    let over = value.is_some_and(|value| value > crate::pages::TTFT_LIMIT_S);
    let sign = over.then(|| view! { <span class="sign" title="over 1 s">"▲ "</span> });
    view! { <td class="num" class:crit=over>{sign}{format::text(value, Unit::Seconds)}</td> }.into_any()
}

fn efficiency(figures: &Figures) -> AnyView {
    let flag =
        (figures.assumed() && figures.tokens_per_joule.is_some()).then(|| view! { <small>"assumed watts"</small> });
    view! { <td class="num">{figures.efficiency()}{flag}</td> }.into_any()
}

/// A sum that leaves hosts out says which.
fn money(value: Option<f64>, unit: Unit, no_price: Option<String>) -> AnyView {
    let note = no_price.map(|note| view! { <small class="warn">{note}</small> });
    view! { <td class="num">{format::text(value, unit)}{note}</td> }.into_any()
}
