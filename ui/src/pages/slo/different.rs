//! What is different about the calls that were not good: for each value of each dimension its share of them against its share of
//! all calls.

use leptos::prelude::*;
use viz::bar::Part;
use viz::format::{self, Unit};

use super::terms::Terms;
use crate::ask::{Answer, Row};
use crate::panel::{hint, number, shares};
use crate::sql::Where;
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

/// A value of a dimension.
struct Value<'a> {
    name: &'static str,
    follow: Follow,
    value: Option<&'a str>,
    calls: f64,
    bad: f64,
}

/// One row per value of each dimension: how many calls, and how many of them were not good. `in_…` is 0 in the rows of a
/// dimension.
pub(super) fn sql(terms: &Terms, clause: Where) -> String {
    let columns = DIMENSIONS.map(|(column, _, _)| column);
    let groupings = columns.map(|column| format!("grouping({column}) AS in_{column}")).join(", ");
    let sets = columns.map(|column| format!("({column})")).join(", ");
    format!(
        "SELECT {}, {groupings},\n  count(*) AS calls, sum(CASE WHEN {} THEN 1 ELSE 0 END) AS bad\nFROM latency\n{}\nGROUP BY GROUPING SETS ({sets})",
        columns.join(", "),
        terms.is_bad(),
        terms.counting(clause).clause(),
    )
}

pub(super) fn view(answer: &Answer, scope: &Scope, here: &str) -> AnyView {
    let mut values: Vec<Value<'_>> = answer.rows().filter_map(read).collect();
    let (calls, bad) = whole(&values);
    if bad == 0.0 {
        return hint(format!("All of {} calls were good.", format::text(Some(calls), Unit::Count)));
    }
    // How much more of the bad calls than of all calls it has, in calls.
    let excess = |value: &Value<'_>| value.bad / bad - value.calls / calls;
    values.retain(|value| value.bad > 0.0 && excess(value) > 0.005);
    values.sort_by(|a, b| excess(b).total_cmp(&excess(a)));
    let found = values.len();
    if found == 0 {
        return hint(format!(
            "{} of {} calls were not good, and no value of any dimension has more of them than of all calls.",
            format::text(Some(bad), Unit::Count),
            format::text(Some(calls), Unit::Count)
        ));
    }
    let lines: Vec<_> = values.into_iter().take(SHOWN).map(|value| line(&value, calls, bad, scope, here)).collect();
    let rest = (found > SHOWN).then(|| hint(format!("the first {SHOWN} of {found}")));
    let head = crate::panel::heads(&[
        "",
        "value",
        "#share of bad calls",
        "",
        "#share of all calls",
        "",
        "#lift",
        "#bad of its own",
    ]);
    view! { {crate::panel::table("What is different", head, lines.into_any())}{rest} }.into_any()
}

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

fn line(value: &Value<'_>, calls: f64, bad: f64, scope: &Scope, here: &str) -> AnyView {
    let link = value.value.and_then(|name| match value.follow {
        Follow::Node => Some(scope.link(&path(&["node", name]))),
        Follow::Narrow(dimension) => Some(scope.with(dimension, Some(name)).link(here)),
        Follow::Nowhere => None,
    });
    let (of_bad, of_all) = (value.bad / bad, value.calls / calls);
    let name = value.value.map_or_else(|| "unknown".to_owned(), str::to_owned);
    view! {
        <tr>
            <td class="note">{value.name}</td>
            <th scope="row"><a href=link>{name}</a></th>
            {number(Some(of_bad), Unit::Ratio)}
            {shares(&[Part { name: "of bad calls", share: of_bad, style: "failed" }])}
            {number(Some(of_all), Unit::Ratio)}
            {shares(&[Part { name: "of all calls", share: of_all, style: "whole" }])}
            <td class="num">{format!("{:.1}×", of_bad / of_all)}</td>
            {number(Some(value.bad / value.calls), Unit::Ratio)}
        </tr>
    }
    .into_any()
}
