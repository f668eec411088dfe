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
    /// Whether it is nobody's: what no tenant used, or no node of an allocation key's value stood for.
    nobody: bool,
    /// Whether all of its parts are its own under every policy that shares: what is shared then is what is nobody's.
    keeps: bool,
    parts: [f64; 5],
    /// Whether any price was known.
    priced: bool,
    tokens: Option<f64>,
    unpriced_hosts: f64,
}

impl Line {
    /// Its cost under a policy for idle time.
    fn cost(&self, idle: Idle, whole: Whole) -> f64 {
        let all = || self.parts.iter().sum::<f64>();
        match idle {
            Idle::Show => all(),
            Idle::Hide => self.parts[0],
            Idle::Share if whole.used > 0.0 && self.keeps => all() + self.parts[0] / whole.used * whole.nobodys,
            Idle::Share if whole.used > 0.0 => self.parts[0] / whole.used * whole.all,
            // Nobody used anything, so nobody can be given the rest: it stays where it arose.
            Idle::Share => all(),
        }
    }
}

/// What all lines come to.
#[derive(Clone, Copy, Debug)]
struct Whole {
    all: f64,
    /// What calls used of it.
    used: f64,
    /// What of it is on lines that are nobody's.
    nobodys: f64,
}

impl Whole {
    fn of(lines: &[Line]) -> Whole {
        let sum = |of: &dyn Fn(&Line) -> f64| lines.iter().map(of).sum::<f64>();
        let all = |line: &Line| line.parts.iter().sum::<f64>();
        Whole {
            all: sum(&all),
            used: sum(&|line| line.parts[0]),
            nobodys: sum(&|line| if line.nobody { all(line) } else { 0.0 }),
        }
    }
}

/// What a row is attributed to of which neither its call nor its node names a value.
const UNATTRIBUTED: &str = telemetry::allocation::UNATTRIBUTED;

/// One row per name and part of cost.
pub(super) fn sql(by: By<'_>, clause: &Where) -> String {
    if let By::Key(key) = by {
        return format!(
            "SELECT allocation_value AS name, part, sum(cost_usd) AS cost_usd,\n  sum(CASE WHEN basis <> 'no price' THEN output_tokens END) AS output_tokens\nFROM cost_per_key\n{}\n  AND allocation_key = {} AND idle_policy = 'show'\nGROUP BY allocation_value, part",
            clause.clause(),
            literal(key)
        );
    }
    if by == By::Tenant {
        return format!(
            "SELECT tenant AS name, part, sum(cost_usd) AS cost_usd, sum(output_tokens) AS output_tokens\nFROM cost_per_tenant\n{}\nGROUP BY tenant, part",
            clause.clause()
        );
    }
    format!(
        "SELECT {} AS name, part, sum(cost_usd) AS cost_usd,\n  sum(CASE WHEN basis <> 'no price' THEN output_tokens END) AS output_tokens,\n  count(DISTINCT CASE WHEN basis = 'no price' THEN host_id END) AS unpriced_hosts\nFROM replica_cost\n{}\nGROUP BY name, part",
        by.column(),
        clause.clause()
    )
}

fn lines(answer: &Answer, by: By<'_>) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in answer.rows() {
        let Some(part) = PARTS.iter().position(|(part, _, _)| row.text("part") == Some(part)) else { continue };
        let name = row.text("name").map(str::to_owned);
        let is_key = matches!(by, By::Key(_));
        let is_nobodys = is_key && name.as_deref() == Some(UNATTRIBUTED);
        let nobody = part > 0 && (by == By::Tenant || is_nobodys);
        let same = |line: &&mut Line| line.name == name && line.nobody == nobody;
        let line = match lines.iter_mut().find(same) {
            Some(line) => line,
            None => {
                lines.push(Line { name, nobody, keeps: is_key, ..Line::default() });
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
        line.unpriced_hosts = line.unpriced_hosts.max(row.number("unpriced_hosts").unwrap_or(0.0));
    }
    lines
}

pub(super) fn view(answer: &Answer, view: &View<'_>, scope: &Scope) -> AnyView {
    let mut lines = lines(answer, view.by);
    if lines.is_empty() {
        return hint("No host was seen in this range.");
    }
    let whole = Whole::of(&lines);
    let unpriced: f64 = lines.iter().map(|line| line.unpriced_hosts).sum();
    let priced = lines.iter().any(|line| line.priced);
    // Nobody's cost is either left out, or given to those who used something, if there are any.
    if view.idle == Idle::Hide || view.idle == Idle::Share && whole.used > 0.0 {
        lines.retain(|line| !line.nobody);
    }
    lines.sort_by(|a, b| b.cost(view.idle, whole).total_cmp(&a.cost(view.idle, whole)));
    let total: f64 = lines.iter().map(|line| line.cost(view.idle, whole)).sum();
    let most = lines.iter().map(|line| line.cost(view.idle, whole)).fold(0.0, f64::max);
    let count = lines.len();
    let rows: Vec<_> = lines.iter().take(SHOWN).map(|line| row(line, view, scope, whole, most)).collect();
    let rest = (count > SHOWN).then(|| hint(format!("the dearest {SHOWN} of {count}; the total is of all")));
    let total = format::text(priced.then_some(total), Unit::Usd);
    let foot = view! {
        <tr class="total"><th scope="row">"total"</th><td class="num">{total}{left_out(unpriced)}</td><td></td><td></td><td></td><td></td></tr>
    };
    let names = [view.by.name(), "#cost", view.idle.parts_head(), "#of all", "#output tokens", "#per M output"];
    view! { {table("Cost", heads(&names), view! { {rows}{foot} }.into_any())}{rest} }.into_any()
}

/// Hosts whose cost is in no sum.
fn left_out(hosts: f64) -> Option<AnyView> {
    let words = format!("{} without a price left out", format::text(Some(hosts), Unit::Count));
    (hosts > 0.0).then(|| view! { <small class="warn">{words}</small> }.into_any())
}

fn row(line: &Line, view: &View<'_>, scope: &Scope, whole: Whole, most: f64) -> AnyView {
    let cost = line.cost(view.idle, whole);
    let total = if view.idle == Idle::Hide { whole.used } else { whole.all };
    let scale = if most > 0.0 { most } else { 1.0 };
    let parts: Vec<Part<'_>> = match view.idle {
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
    let unpriced = left_out(line.unpriced_hosts);
    let tokens = line.tokens.filter(|tokens| *tokens > 0.0);
    let per_million = tokens.filter(|_| line.priced).map(|tokens| cost / tokens * 1e6);
    let of_all = (line.priced && total > 0.0).then(|| cost / total);
    view! {
        <tr>
            <th scope="row">{name(line, view, scope, whole.used)}</th>
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
        (None, _) if matches!(view.by, By::Key(_)) => format!("split before {} was a key", view.by.name()),
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
    view! { <a href=link>{text}</a> }.into_any()
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
        let whole = Whole { all: 100.0, used: 40.0, nobodys: 60.0 };
        let given: Vec<f64> = tenants.iter().map(|line| line.cost(Idle::Share, whole)).collect();
        assert_eq!(given, [75.0, 25.0]);
        assert_eq!(tenants[0].cost(Idle::Hide, whole), 30.0);
        assert_eq!(line([1.0, 2.0, 3.0, 4.0, 5.0]).cost(Idle::Show, whole), 15.0);
        let unused = line([0.0, 2.0, 3.0, 0.0, 0.0]);
        let nothing = Whole { all: 5.0, used: 0.0, nobodys: 0.0 };
        assert_eq!(unused.cost(Idle::Share, nothing), 5.0, "what nobody used is still paid for");
        // a team whose nodes say so keeps their idle time, and takes its part of what is nobody's: half of 20
        let keeps = |parts| Line { keeps: true, ..line(parts) };
        let whole = Whole { all: 100.0, used: 40.0, nobodys: 20.0 };
        let [owner, guest] = [keeps([20.0, 0.0, 40.0, 0.0, 0.0]), keeps([20.0, 0.0, 0.0, 0.0, 0.0])];
        assert_eq!([owner, guest].map(|line| line.cost(Idle::Share, whole)), [70.0, 30.0]);
    }
}
