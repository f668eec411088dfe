//! Who pays: cost by one dimension, taken apart into what calls used and what nobody did.

use leptos::prelude::*;
use viz::bar::Part;
use viz::format::{self, Unit};

use super::{By, Idle, View};
use crate::ask::{Answer, Row};
use crate::panel::{heads, hint, number, shares, table};
use crate::sql::{Where, literal};
use crate::urlstate::{Dimension, Scope, path};

/// Parts of cost: name in the views, on the page, class of the style sheet. They add up to the nodes' cost.
pub(super) const PARTS: [(&str, &str, &str); 5] = [
    ("requests", "requests", "decode"),
    ("padding", "padding", "queue"),
    ("idle", "idle", "rest"),
    ("unattributed", "not attributed", "prefill"),
    ("shared", "shared", "shared"),
];

/// Rows shown.
const SHOWN: usize = 25;

/// One row: a name, its parts in dollars, its tokens.
#[derive(Clone, Debug, Default, PartialEq)]
struct Line {
    /// None where the dimension is unknown.
    name: Option<String>,
    /// Whether it is nobody's: what no tenant used.
    nobody: bool,
    parts: [f64; 5],
    /// Whether any price was known.
    priced: bool,
    tokens: Option<f64>,
    /// What is in no sum, since it has no price: hosts, or hours of a tenant or an allocation key.
    unpriced: f64,
}

impl Line {
    /// Its cost under a policy for idle time, of all lines' `whole`, of which calls used `used`.
    fn cost(&self, idle: Idle, (whole, used): (f64, f64)) -> f64 {
        match idle {
            Idle::Show => self.parts.iter().sum(),
            Idle::Hide => self.parts[0],
            Idle::Share if used > 0.0 => self.parts[0] / used * whole,
            // Nobody used anything, so nobody can be given the rest: it stays where it arose.
            Idle::Share => self.parts.iter().sum(),
        }
    }
}

/// What a row is attributed to of which neither its call nor its node names a value.
const UNATTRIBUTED: &str = telemetry::allocation::UNATTRIBUTED;

/// One row per name and part of cost. Those of an allocation key are under the policy for idle time already.
pub(super) fn sql(view: &View<'_>, clause: &Where) -> String {
    let by = view.by;
    if let By::Key(key) = by {
        return format!(
            "SELECT allocation_value AS name, part, sum(cost_usd) AS cost_usd,\n  sum(CASE WHEN basis <> 'no price' THEN output_tokens END) AS output_tokens,\n  count(DISTINCT CASE WHEN basis = 'no price' THEN time END) AS unpriced\nFROM cost_per_key\n{}\n  AND allocation_key = {} AND idle_policy = '{}'\nGROUP BY allocation_value, part",
            clause.clause(),
            literal(key),
            view.idle.name()
        );
    }
    if by == By::Tenant {
        return format!(
            "SELECT tenant AS name, part, sum(cost_usd) AS cost_usd,\n  sum(CASE WHEN basis <> 'no price' THEN output_tokens END) AS output_tokens,\n  count(DISTINCT CASE WHEN basis = 'no price' THEN date_trunc('hour', time) END) AS unpriced\nFROM cost_per_tenant\n{}\nGROUP BY tenant, part",
            clause.clause()
        );
    }
    format!(
        "SELECT {} AS name, part, sum(cost_usd) AS cost_usd,\n  sum(CASE WHEN basis <> 'no price' THEN output_tokens END) AS output_tokens,\n  count(DISTINCT CASE WHEN basis = 'no price' THEN host_id END) AS unpriced\nFROM replica_cost\n{}\nGROUP BY name, part",
        by.column(),
        clause.clause()
    )
}

fn lines(answer: &Answer, by: By<'_>) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in answer.rows() {
        let Some(part) = PARTS.iter().position(|(part, _, _)| row.text("part") == Some(part)) else { continue };
        let name = row.text("name").map(str::to_owned);
        let nobody = by == By::Tenant && part > 0;
        let same = |line: &&mut Line| line.name == name && line.nobody == nobody;
        let line = match lines.iter_mut().find(same) {
            Some(line) => line,
            None => {
                lines.push(Line { name, nobody, ..Line::default() });
                let last = lines.len() - 1;
                &mut lines[last]
            }
        };
        if let Some(cost) = row.number("cost_usd") {
            line.parts[part] += cost;
            line.priced = true;
        }
        line.tokens = match (line.tokens, row.number("output_tokens")) {
            (None, tokens) | (tokens, None) => tokens,
            (Some(a), Some(b)) => Some(a + b),
        };
        line.unpriced = line.unpriced.max(row.number("unpriced").unwrap_or(0.0));
    }
    lines
}

pub(super) fn view(answer: &Answer, view: &View<'_>, scope: &Scope) -> AnyView {
    let (mut lines, idle) = (lines(answer, view.by), view.reckoned());
    if lines.is_empty() {
        return hint("No host was seen in this range.");
    }
    let sum = |of: fn(&Line) -> f64| lines.iter().map(of).sum::<f64>();
    let whole = (sum(|line| line.parts.iter().sum()), sum(|line| line.parts[0]));
    let unpriced = lines.iter().map(|line| line.unpriced);
    // Hosts are each on one line, hours on all.
    let unpriced = if view.counts_hours() { unpriced.fold(0.0, f64::max) } else { unpriced.sum() };
    let priced = lines.iter().any(|line| line.priced);
    // Nobody's cost is either left out, or given to those who used something, if there are any.
    if idle == Idle::Hide || idle == Idle::Share && whole.1 > 0.0 {
        lines.retain(|line| !line.nobody);
    }
    lines.sort_by(|a, b| b.cost(idle, whole).total_cmp(&a.cost(idle, whole)));
    let total: f64 = lines.iter().map(|line| line.cost(idle, whole)).sum();
    let most = lines.iter().map(|line| line.cost(idle, whole)).fold(0.0, f64::max);
    let count = lines.len();
    let rows: Vec<_> = lines.iter().take(SHOWN).map(|line| row(line, view, scope, whole, most)).collect();
    let rest = (count > SHOWN).then(|| hint(format!("the dearest {SHOWN} of {count}; the total is of all")));
    let total = format::text(priced.then_some(total), Unit::Usd);
    let foot = view! {
        <tr class="total"><th scope="row">"total"</th><td class="num">{total}{left_out(unpriced, view)}</td><td></td><td></td><td></td><td></td></tr>
    };
    let names = [view.by.name(), "#cost", idle.parts_head(), "#of all", "#output tokens", "#per M output"];
    view! { {table("Cost", heads(&names), view! { {rows}{foot} }.into_any())}{rest} }.into_any()
}

/// Hosts whose cost is in no sum, or hours in which there are some.
fn left_out(unpriced: f64, view: &View<'_>) -> Option<AnyView> {
    let count = format::text(Some(unpriced), Unit::Count);
    let words = match view.counts_hours() {
        true => format!("unpriced hosts in {count} h"),
        false => format!("{count} without a price left out"),
    };
    (unpriced > 0.0).then(|| view! { <small class="warn">{words}</small> }.into_any())
}

fn row(line: &Line, view: &View<'_>, scope: &Scope, whole: (f64, f64), most: f64) -> AnyView {
    let idle = view.reckoned();
    let cost = line.cost(idle, whole);
    let total = if idle == Idle::Hide { whole.1 } else { whole.0 };
    let scale = if most > 0.0 { most } else { 1.0 };
    let parts: Vec<Part<'_>> = match idle {
        Idle::Share => vec![Part { name: "with its share of the rest", share: cost / scale, style: "decode" }],
        Idle::Hide => vec![Part { name: "requests", share: cost / scale, style: "decode" }],
        Idle::Show => {
            let part = |(index, (_, name, style)): (usize, &(&'static str, &'static str, &'static str))| Part {
                name,
                share: line.parts[index] / scale,
                style,
            };
            PARTS.iter().enumerate().map(part).collect()
        }
    };
    let unpriced = left_out(line.unpriced, view);
    let tokens = line.tokens.filter(|tokens| *tokens > 0.0);
    // What is nobody's was spent on no token.
    let has_price = line.priced && line.name.as_deref() != Some(UNATTRIBUTED);
    let per_million = tokens.filter(|_| has_price).map(|tokens| cost / tokens * 1e6);
    let of_all = (line.priced && total > 0.0).then(|| cost / total);
    view! {
        <tr>
            <th scope="row">{name(line, view, scope, whole.1)}</th>
            <td class="num">{format::text(line.priced.then_some(cost), Unit::Usd)}{unpriced}</td>
            {shares(&parts)}
            {number(of_all, Unit::Ratio)}
            {number(tokens, Unit::Tokens)}
            {number(per_million, Unit::Usd)}
        </tr>
    }
    .into_any()
}

fn name(line: &Line, view: &View<'_>, scope: &Scope, used: f64) -> AnyView {
    let text = match (&line.name, line.nobody) {
        (_, true) if view.idle == Idle::Share && used == 0.0 => "nobody: nothing was used".to_owned(),
        (_, true) => "nobody: padding, idle, not attributed, shared".to_owned(),
        (None, _) if view.is_by_key() => format!("split before {} was a key", view.by.name()),
        (None, _) => format!("no {}", view.by.name()),
        (Some(name), _) if name == UNATTRIBUTED => format!("no {}", view.by.name()),
        (Some(name), _) => name.clone(),
    };
    let link = line.name.as_deref().and_then(|name| {
        Some(match view.by {
            By::Region => View { by: By::Hardware, ..*view }.link(&scope.with(Dimension::Region, Some(name))),
            By::Model => View { by: By::Region, ..*view }.link(&scope.with(Dimension::Model, Some(name))),
            By::Tenant => scope.with(Dimension::Tenant, Some(name)).link("/requests"),
            By::Hardware => scope.with(Dimension::Hardware, Some(name)).link("/fleet"),
            By::Node => scope.link(&path(&["node", name])),
            // no page knows of a key's values
            By::Key(_) => return None,
        })
    });
    match link {
        Some(link) => view! { <a href=link>{text}</a> }.into_any(),
        None => text.into_any(),
    }
}

/// What the parts add up to, and what the nodes cost by themselves: two statements, one sum.
pub(super) fn sum(answer: &Answer, by: By<'_>) -> Option<f64> {
    let lines = lines(answer, by);
    lines.iter().any(|line| line.priced).then(|| lines.iter().flat_map(|line| line.parts).sum())
}

/// Whether any row has a price.
pub(super) fn first_number(row: Option<Row<'_>>, column: &str) -> Option<f64> {
    row?.number(column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_out_idle_time_leaves_nothing_over() {
        let line = |parts| Line { parts, priced: true, ..Line::default() };
        let tenants = [line([30.0, 0.0, 0.0, 0.0, 0.0]), line([10.0, 0.0, 0.0, 0.0, 0.0])];
        let whole = (100.0, 40.0);
        let given: Vec<f64> = tenants.iter().map(|line| line.cost(Idle::Share, whole)).collect();
        assert_eq!(given, [75.0, 25.0]);
        assert_eq!(tenants[0].cost(Idle::Hide, whole), 30.0);
        assert_eq!(line([1.0, 2.0, 3.0, 4.0, 5.0]).cost(Idle::Show, whole), 15.0);
        let unused = line([0.0, 2.0, 3.0, 0.0, 0.0]);
        assert_eq!(unused.cost(Idle::Share, (5.0, 0.0)), 5.0, "what nobody used is still paid for");
    }

    /// Hours in which somebody's calls ran on a host without a price are told, and their tokens are in no ratio.
    #[test]
    fn a_tenants_hours_without_a_price_are_counted() {
        let view = View { by: By::Tenant, idle: Idle::Show };
        let sql = sql(&view, &Where::place(&Scope::default(), (0, 3_600_000_000)));
        for part in [
            "WHEN basis <> 'no price' THEN output_tokens",
            "WHEN basis = 'no price' THEN date_trunc('hour', time) END) AS unpriced",
        ] {
            assert!(sql.contains(part), "{sql}");
        }
        let told = |by| left_out(2.0, &View { by, idle: Idle::Show }).map(|view| view.to_html());
        assert!(told(By::Tenant).is_some_and(|html| html.contains("unpriced hosts in 2 h")));
        assert!(told(By::Region).is_some_and(|html| html.contains("2 without a price left out")));
        assert!(left_out(0.0, &view).is_none());
    }

    /// Cost by an allocation key is what the view says under the policy: nothing is shared out twice, or otherwise.
    #[test]
    fn a_key_is_asked_under_the_policy() {
        for idle in Idle::ALL {
            let view = View { by: By::Key("it's"), idle };
            let sql = sql(&view, &Where::place(&Scope::default(), (0, 3_600_000_000)));
            let policy = format!("allocation_key = 'it''s' AND idle_policy = '{}'", idle.name());
            assert!(sql.contains(&policy), "{sql}");
            assert_eq!(view.reckoned(), Idle::Show);
        }
        assert_eq!(View { by: By::Tenant, idle: Idle::Share }.reckoned(), Idle::Share);
    }
}
