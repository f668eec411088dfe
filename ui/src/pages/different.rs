//! What is different about some calls, such as those that were not good: for each value of each dimension its share of them against
//! its share of all calls.

pub(crate) mod chosen;

use leptos::prelude::*;
use viz::bar::Part;
use viz::format::{self, Unit};

use crate::ask::{Answer, Row};
use crate::panel::{hint, number, shares};
use crate::urlstate::{Dimension, Scope, path};

/// Dimensions that are compared: column, name, and how a value of it is followed.
const DIMENSIONS: [(&str, &str, Follow); 7] = [
    ("host_id", "node", Follow::Node),
    ("region", "region", Follow::Narrow(Dimension::Region)),
    ("model", "model", Follow::Narrow(Dimension::Model)),
    ("tenant", "tenant", Follow::Narrow(Dimension::Tenant)),
    ("host_type", "hardware", Follow::Narrow(Dimension::Hardware)),
    ("service_version", "version", Follow::Nowhere),
    ("engine", "engine", Follow::Narrow(Dimension::Engine)),
];

/// Values in the list.
const SHOWN: usize = 12;

#[derive(Clone, Copy)]
enum Follow {
    Node,
    Narrow(Dimension),
    Nowhere,
}

/// The link to this page with another scope.
pub(crate) type Narrowed<'a> = &'a dyn Fn(&Scope) -> String;

/// A value of a dimension.
struct Value<'a> {
    name: &'static str,
    follow: Follow,
    value: Option<&'a str>,
    calls: f64,
    bad: f64,
}

/// One row per value of each dimension: how many calls, and of how many `meant` holds. `in_…` is 0 in the rows of a dimension.
/// `from` is what follows FROM, with its conditions.
pub(crate) fn sql(meant: &str, from: &str) -> String {
    let columns = DIMENSIONS.map(|(column, _, _)| column);
    let groupings = columns.map(|column| format!("grouping({column}) AS in_{column}")).join(", ");
    let sets = columns.map(|column| format!("({column})")).join(", ");
    format!(
        "SELECT {}, {groupings},\n  count(*) AS calls, sum(CASE WHEN {meant} THEN 1 ELSE 0 END) AS bad\nFROM {from}\nGROUP BY GROUPING SETS ({sets})",
        columns.join(", "),
    )
}

/// The ranking, by how much larger the first share is. `words` name the calls that are meant ("not good") and say
/// that there are none; what a value leads to
/// is `narrowed`, but for nodes, which have a page.
pub(crate) fn view(answer: &Answer, (words, none): (&str, &str), scope: &Scope, narrowed: Narrowed<'_>) -> AnyView {
    let mut values: Vec<Value<'_>> = answer.rows().filter_map(read).collect();
    let (calls, bad) = whole(&values);
    if bad == 0.0 {
        return hint(format!("{none}, of {}.", format::text(Some(calls), Unit::Count)));
    }
    // How much more of those that are meant than of all calls it has, in calls.
    let excess = |value: &Value<'_>| value.bad / bad - value.calls / calls;
    values.retain(|value| value.bad > 0.0 && excess(value) > 0.005);
    values.sort_by(|a, b| excess(b).total_cmp(&excess(a)));
    let found = values.len();
    if found == 0 {
        return hint(format!(
            "{} of {} calls are {words}, and no value of any dimension has more of them than of all calls.",
            format::text(Some(bad), Unit::Count),
            format::text(Some(calls), Unit::Count)
        ));
    }
    let lines: Vec<_> = values.into_iter().take(SHOWN).map(|value| line(&value, calls, bad, scope, narrowed)).collect();
    let rest = (found > SHOWN).then(|| hint(format!("the first {SHOWN} of {found}")));
    let head = crate::panel::heads(&[
        "",
        "value",
        &format!("#of those {words}"),
        "",
        "#of all calls",
        "",
        "#lift",
        &format!("#{words} of its own"),
    ]);
    view! { {crate::panel::table("What is different", head, lines.into_any())}{rest} }.into_any()
}

/// Measures that are compared: column, name, unit.
const MEASURES: [(&str, &str, Unit); 8] = [
    ("queue_s", "queue", Unit::Seconds),
    ("prefill_s", "prefill", Unit::Seconds),
    ("decode_s", "decode", Unit::Seconds),
    ("tpot_s", "TPOT", Unit::Seconds),
    ("itl_max_s", "longest gap", Unit::Seconds),
    ("input_tokens", "input tokens", Unit::Tokens),
    ("output_tokens", "output tokens", Unit::Tokens),
    ("e2e_s", "end to end", Unit::Seconds),
];

/// Means of each measure, one row of the calls that are meant (`meant` is 1) and one of the others.
pub(crate) fn measures_sql(meant: &str, from: &str) -> String {
    let means = MEASURES.map(|(column, _, _)| format!("avg({column}) AS {column}")).join(", ");
    format!(
        "SELECT CASE WHEN {meant} THEN 1 ELSE 0 END AS meant, count(*) AS calls,\n  {means}\nFROM {from}\nGROUP BY meant\nORDER BY meant DESC"
    )
}

/// The measures by how much larger they are among the calls that are meant.
pub(crate) fn measures(answer: &Answer, words: &str) -> AnyView {
    let row = |meant: f64| answer.rows().find(|row| row.number("meant") == Some(meant));
    let (Some(those), Some(others)) = (row(1.0), row(0.0)) else { return ().into_any() };
    let mut ranked: Vec<_> = MEASURES
        .into_iter()
        .filter_map(|(column, name, unit)| {
            let (of_those, of_others) = (those.number(column)?, others.number(column)?);
            (of_others > 0.0).then_some((of_those / of_others, name, of_those, of_others, unit))
        })
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let lines: Vec<_> = ranked
        .into_iter()
        .map(|(times, name, of_those, of_others, unit)| {
            let apart = times >= APART;
            view! {
                <tr>
                    <th scope="row">{name}</th>
                    {number(Some(of_those), unit)}
                    {number(Some(of_others), unit)}
                    <td class="num" class:crit=apart>{apart.then_some("▲ ")}{format!("{times:.1}×")}</td>
                </tr>
            }
        })
        .collect();
    let head = crate::panel::heads(&["mean of", &format!("#those {words}"), "#the others", "#times"]);
    crate::panel::table("What their measures are", head, lines.into_any())
}

/// Twice as much as others is told apart.
const APART: f64 = 2.0;

fn read<'a>(row: Row<'a>) -> Option<Value<'a>> {
    let (column, name, follow) =
        DIMENSIONS.into_iter().find(|(column, _, _)| row.number(&format!("in_{column}")) == Some(0.0))?;
    Some(Value { name, follow, value: row.text(column), calls: row.number("calls")?, bad: row.number("bad")? })
}

/// All calls and all bad ones: any dimension has them all.
fn whole(values: &[Value<'_>]) -> (f64, f64) {
    let first = values.first().map(|value| value.name);
    let of = values.iter().filter(|value| Some(value.name) == first);
    of.fold((0.0, 0.0), |(calls, bad), value| (calls + value.calls, bad + value.bad))
}

fn line(value: &Value<'_>, calls: f64, bad: f64, scope: &Scope, narrowed: Narrowed<'_>) -> AnyView {
    let link = value.value.and_then(|name| match value.follow {
        Follow::Node => Some(scope.link(&path(&["node", name]))),
        Follow::Narrow(dimension) => Some(narrowed(&scope.with(dimension, Some(name)))),
        Follow::Nowhere => None,
    });
    let (of_bad, of_all) = (value.bad / bad, value.calls / calls);
    let name = value.value.map_or_else(|| "unknown".to_owned(), str::to_owned);
    view! {
        <tr>
            <td class="note">{value.name}</td>
            <th scope="row"><a href=link>{name}</a></th>
            {number(Some(of_bad), Unit::Ratio)}
            {shares(&[Part { name: "of those", share: of_bad, style: "failed" }])}
            {number(Some(of_all), Unit::Ratio)}
            {shares(&[Part { name: "of all calls", share: of_all, style: "whole" }])}
            <td class="num">{format!("{:.1}×", of_bad / of_all)}</td>
            {number(Some(value.bad / value.calls), Unit::Ratio)}
        </tr>
    }
    .into_any()
}
