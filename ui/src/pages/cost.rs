//! Cost: what the fleet costs, what of it calls used, and who pays for which part.

mod budgets;
mod pivot;
mod prices;
mod sides;

use leptos::prelude::*;
use pivot::PARTS;
use viz::format::{self, Unit};

use crate::ask::{Answer, Asked};
use crate::frame::{self, Place, Sheet};
use crate::panel::plot::{Axis, series_of, stack_chart};
use crate::panel::{Tile, answered, choices, empty, hint, panel};
use crate::server::{App, Visit};
use crate::sql::{PLACE, Where, bucket, hours, minute_step, minutes};
use crate::urlstate::{Fields, Scope};

/// What cost is taken apart by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum By<'k> {
    #[default]
    Region,
    Model,
    Tenant,
    Hardware,
    Node,
    /// A configured allocation key.
    Key(&'k str),
}

/// What stands before a key's name in the address, so that it is not taken for another dimension.
const KEY: &str = "key:";

impl<'k> By<'k> {
    fn all(keys: &'k [String]) -> Vec<By<'k>> {
        let fixed = [By::Region, By::Model, By::Tenant, By::Hardware, By::Node];
        fixed.into_iter().chain(keys.iter().map(|key| By::Key(key))).collect()
    }

    /// As the address of the page has it.
    fn field(self) -> String {
        match self {
            By::Key(key) => format!("{KEY}{key}"),
            other => other.name().to_owned(),
        }
    }

    fn name(self) -> &'k str {
        match self {
            By::Key(key) => key,
            By::Region => "region",
            By::Model => "model",
            By::Tenant => "tenant",
            By::Hardware => "hardware",
            By::Node => "node",
        }
    }

    fn column(self) -> &'k str {
        match self {
            By::Hardware => "host_type",
            By::Node => "host_id",
            other => other.name(),
        }
    }
}

/// What becomes of time that no call used. One setting for all of the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Idle {
    /// Its cost stands beside that of calls.
    #[default]
    Show,
    /// Whoever used something pays for it, in proportion.
    Share,
    /// It is left out.
    Hide,
}

impl Idle {
    const ALL: [Idle; 3] = [Idle::Show, Idle::Share, Idle::Hide];

    fn name(self) -> &'static str {
        match self {
            Idle::Show => "show",
            Idle::Share => "share",
            Idle::Hide => "hide",
        }
    }

    /// The policy in words, as the panel's title has it.
    fn words(self) -> &'static str {
        match self {
            Idle::Show => "padding, idle, not attributed and shared shown apart",
            Idle::Share => "padding, idle, not attributed and shared given to what calls used",
            Idle::Hide => "padding, idle, not attributed and shared left out",
        }
    }

    /// What the columns over time are: parts are shown apart there, also where a policy gives them to somebody.
    fn course_words(self) -> &'static str {
        match self {
            Idle::Show | Idle::Share => "part by part",
            Idle::Hide => "requests alone",
        }
    }

    fn parts_head(self) -> &'static str {
        match self {
            Idle::Show => "requests · padding · idle · not attributed · shared",
            Idle::Share => "with its share of what no call used",
            Idle::Hide => "requests alone",
        }
    }
}

/// What the page shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct View<'k> {
    by: By<'k>,
    idle: Idle,
}

impl<'k> View<'k> {
    fn parse(query: &str, keys: &'k [String]) -> Self {
        let fields = Fields::parse(query);
        let (by, idle) = (fields.text("by"), fields.text("idle"));
        Self {
            by: By::all(keys).into_iter().find(|known| by.as_ref() == Some(&known.field())).unwrap_or_default(),
            idle: Idle::ALL.into_iter().find(|known| idle.as_deref() == Some(known.name())).unwrap_or_default(),
        }
    }

    fn is_by_key(&self) -> bool {
        matches!(self.by, By::Key(_))
    }

    /// Whether what has no price is told in hours: nobody's hosts are a tenant's or a key's.
    fn counts_hours(&self) -> bool {
        self.is_by_key() || self.by == By::Tenant
    }

    /// The policy that the table has yet to be put under: rows of an allocation key are asked for under one.
    fn reckoned(&self) -> Idle {
        if self.is_by_key() { Idle::Show } else { self.idle }
    }

    /// The policy in words, as the table's title has it.
    fn words(&self) -> &'static str {
        match (self.is_by_key(), self.idle) {
            (false, idle) => idle.words(),
            (true, Idle::Show) => "idle and padding shown apart",
            (true, Idle::Share) => "idle and padding that are nobody's given to what calls used",
            (true, Idle::Hide) => "idle and padding left out",
        }
    }

    fn fields(&self) -> Fields {
        let mut fields = Fields::default();
        if self.by != By::default() {
            fields.set("by", self.by.field());
        }
        if self.idle != Idle::default() {
            fields.set("idle", self.idle.name().to_owned());
        }
        fields
    }

    fn link(&self, scope: &Scope) -> String {
        let mut fields = scope.fields();
        self.fields().iter().for_each(|(name, value)| fields.set(name, value.to_owned()));
        fields.link("/cost")
    }
}

struct Asks {
    total: Asked,
    course: Asked,
    pivot: Asked,
    nodes: Asked,
    budgets: Asked,
    sides: [Asked; 3],
}

pub(crate) async fn page(app: &App, visit: &Visit) -> String {
    let keys = &app.options.allocation_keys;
    let (scope, view) = (Scope::parse(&visit.query), View::parse(&visit.query, keys));
    let span = minutes(scope.resolve(visit.now_us));
    let clause = Where::place(&scope, span);
    let key = Scope { tenant: None, engine: None, hardware: None, ..scope.clone() }.link("");
    let ask = |name, sql| app.asker.kept(name, &key, visit.now_us, sql);
    let (pivot_name, pivot_key) = match view.by {
        By::Region => ("cost.by region", key.clone()),
        By::Model => ("cost.by model", key.clone()),
        By::Tenant => ("cost.by tenant", key.clone()),
        By::Hardware => ("cost.by hardware", key.clone()),
        By::Node => ("cost.by node", key.clone()),
        By::Key(name) => ("cost.by allocation key", format!("{name} {} {key}", view.idle.name())),
    };
    let of_pivot = match view.by {
        By::Key(_) => Where::place(&scope, hours(span)),
        _ => Where::place(&scope, span),
    };
    let pivot_sql = pivot::sql(&view, &of_pivot);
    let by_hour = Where::of(&scope, hours(span), &PLACE[..1]);
    let (choices, total, course, pivot, nodes, budgets, sides, bills, months) = tokio::join!(
        frame::choices(app, visit, &scope),
        ask("cost.total", total_sql(&clause)),
        ask("cost.over time", course_sql(&clause, minute_step(span))),
        app.asker.kept(pivot_name, &pivot_key, visit.now_us, pivot_sql),
        ask("cost.nodes", prices::sql(&clause)),
        app.asker.later("cost.budgets", "", visit.now_us, budgets::SQL.to_owned()),
        ask("cost.sides", sides::regions_sql(&clause)),
        app.asker.later("cost.bills", &key, visit.now_us, sides::bills_sql(&by_hour)),
        app.asker.later("cost.months", "", visit.now_us, sides::MONTHS.to_owned()),
    );
    let asks = Asks { total, course, pivot, nodes, budgets, sides: [sides, bills, months] };
    frame::render(app, visit, || {
        let nothing = matches!(&asks.nodes.outcome, Ok(answer) if answer.first().is_none());
        let body = if nothing {
            empty(app, &scope, &choices, "hosts")
        } else {
            panels(visit, &scope, (&view, keys), span, &asks)
        };
        Sheet {
            filters: &PLACE,
            keep: view.fields(),
            renews: true,
            body,
            choices: Some(choices),
            ..Sheet::new("Cost", Place::Cost, scope.clone()).told_by(&[&asks.total, &asks.pivot, &asks.nodes])
        }
    })
}

fn sum_of_parts() -> String {
    let columns = PARTS.map(|(part, _, _)| format!("sum({part}_cost_usd) AS {part}"));
    columns.join(", ")
}

fn total_sql(clause: &Where) -> String {
    format!(
        "SELECT sum(cost_usd) AS cost_usd, {},\n  CAST(sum(usd_per_hour) AS DOUBLE) / count(DISTINCT time) AS usd_per_hour,\n  string_agg(DISTINCT basis, ', ') AS basis, string_agg(DISTINCT unpriced, ', ') AS unpriced, min(oldest_price_as_of) AS price_as_of\nFROM cost_per_region\n{}",
        sum_of_parts(),
        clause.clause()
    )
}

fn course_sql(clause: &Where, step_s: i64) -> String {
    let columns =
        PARTS.map(|(part, _, _)| format!("CAST(sum({part}_cost_usd) AS DOUBLE) * 3600.0 / {step_s}.0 AS {part}"));
    format!(
        "SELECT {},\n  {}\nFROM cost_per_region\n{}\nGROUP BY bucket\nORDER BY bucket",
        bucket(step_s),
        columns.join(",\n  "),
        clause.clause()
    )
}

fn panels(
    visit: &Visit,
    scope: &Scope,
    (view, keys): (&View<'_>, &[String]),
    span: (i64, i64),
    asks: &Asks,
) -> AnyView {
    let axis = Axis { span_us: span, step_s: minute_step(span) };
    let course = answered(visit, &asks.course, |answer| course(answer, axis, view.idle));
    let pivot = answered(visit, &asks.pivot, |answer| pivot::view(answer, view, scope));
    let nodes = answered(visit, &asks.nodes, prices::view);
    let by = By::all(keys).into_iter();
    let by = by.map(|by| (by.field(), by.name().to_owned(), View { by, ..*view }.link(scope))).collect();
    let idle = Idle::ALL.map(|idle| {
        let name = match idle {
            Idle::Show => "show idle",
            Idle::Share => "share it out",
            Idle::Hide => "leave it out",
        };
        (idle.name().to_owned(), name.to_owned(), View { idle, ..*view }.link(scope))
    });
    // Late rows come within minutes; what is older and does not move is the same for both statements.
    let closed = !scope.follows_now() && span.1 < visit.now_us - 600_000_000;
    let [regions, bills, months] = &asks.sides;
    let title = format!("Cost by {}, {}", view.by.name(), view.words());
    let note = format!("spend at list price, dollars an hour, {} s columns", axis.step_s);
    view! {
        <section id="tiles" class="tiles" data-refresh="" aria-label="Cost">{tiles(asks, view.idle)}</section>
        <div class="controls">{choices("Cost by", &view.by.field(), by)}{choices("Idle time", view.idle.name(), idle.to_vec())}</div>
        {panel("pivot", &title, "device time × price of the chips at that time", &[&asks.pivot], view! { {pivot}{reconciled(asks, view.by, closed)} }.into_any())}
        {sides::regions(visit, regions)}
        {sides::bills(visit, bills)}
        {sides::months(visit, months)}
        {budgets::panel_of(visit, &asks.budgets)}
        {panel("course", &format!("Spend over time, {}", view.idle.course_words()), &note, &[&asks.course], course)}
        {panel("prices", "Hosts and their prices", "those without a price first: their cost is unknown, not zero", &[&asks.nodes], nodes)}
    }
    .into_any()
}

fn tiles(asks: &Asks, idle: Idle) -> AnyView {
    let row = asks.total.outcome.as_ref().ok().and_then(Answer::first);
    let of = |column: &str| pivot::first_number(row, column);
    let words = |column: &str| row.and_then(|row| row.text(column)).map(str::to_owned);
    let (total, requests) = (of("cost_usd"), of("requests"));
    let waste = total.filter(|total| *total > 0.0).zip(of("padding").zip(of("idle")));
    let shown = if idle == Idle::Hide { requests } else { total };
    let without = words("unpriced").map(|types| format!("; without {types}: no price")).unwrap_or_default();
    // what every figure of dollars here is worth: which prices, and of when
    let as_of = words("price_as_of").map(|day| format!(", prices as of {day} and later")).unwrap_or_default();
    let basis = words("basis").map_or_else(|| "no price is known".to_owned(), |basis| format!("{basis}{as_of}"));
    let hourly = of("usd_per_hour");
    let month = hourly.map(|hourly| {
        format!(
            "{} in 30 days at this rate; mean price of the hosts seen, {basis}",
            format::text(Some(hourly * 720.0), Unit::Usd)
        )
    });
    let tile = |label, value, unit, note: String| {
        Tile { label, value, unit, note, flag: None, before: None, course: Vec::new(), asked: &asks.total }.view()
    };
    view! {
        {tile("Cost of this range", shown, Unit::Usd, format!("{basis}{without}; {}", idle.words()))}
        {tile("Run rate", hourly, Unit::UsdPerHour, month.unwrap_or_else(|| "no price is known".to_owned()))}
        {tile("Used by calls", total.filter(|total| *total > 0.0).zip(requests).map(|(total, requests)| requests / total), Unit::Ratio, format!("{} of {}, by device time; {basis}", format::text(requests, Unit::Usd), format::text(total, Unit::Usd)))}
        {tile("Padding and idle", waste.map(|(total, (padding, idle))| (padding + idle) / total), Unit::Ratio, format!("padding {}, idle {}; {basis}", format::text(of("padding"), Unit::Usd), format::text(of("idle"), Unit::Usd)))}
    }
    .into_any()
}

fn course(answer: &Answer, axis: Axis, idle: Idle) -> AnyView {
    let parts = if idle == Idle::Hide { &PARTS[..1] } else { &PARTS[..] };
    let columns: Vec<(&str, &str, usize)> = parts.iter().map(|(part, name, _)| (*part, *name, 0)).collect();
    let styles: Vec<&'static str> = parts.iter().map(|(_, _, style)| *style).collect();
    stack_chart(&axis.chart("Spend over time", Unit::UsdPerHour, answer, series_of(answer, &columns)), &styles)
}

/// The parts of the table against what the nodes cost by themselves.
fn reconciled(asks: &Asks, by: By<'_>, closed: bool) -> AnyView {
    if let By::Key(_) = by {
        return hint("Of the whole hours that the range touches: they are split by keys when they are built.");
    }
    let (Ok(pivot), Ok(nodes)) = (&asks.pivot.outcome, &asks.nodes.outcome) else { return ().into_any() };
    let parts = pivot::sum(pivot, by);
    let whole = nodes.rows().filter_map(|row| row.number("cost_usd")).reduce(|a, b| a + b);
    let (Some(parts), Some(whole)) = (parts, whole) else {
        return hint("No price is known for any host of this range.");
    };
    let apart = (parts - whole).abs();
    let words = if apart < whole.abs() * 1e-6 + 1e-9 {
        format!("All parts together are {}, what the nodes cost.", format::text(Some(whole), Unit::Usd))
    } else {
        let usd = |value| format::text(Some(value), Unit::Usd);
        let (parts, whole, apart) = (usd(parts), usd(whole), usd(apart));
        if closed {
            let words =
                format!("Does not reconcile: all parts together are {parts}, the nodes cost {whole}, {apart} apart.");
            return view! { <p class="hint warn" role="alert">{words}</p> }.into_any();
        }
        // Both statements are of the same stretch, but the newest minute goes on between them.
        format!(
            "All parts together are {parts}, the nodes cost {whole}: {apart} apart, for the two were read at different moments."
        )
    };
    hint(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_survives_its_own_url() {
        let keys = ["team", "node"].map(str::to_owned);
        for by in By::all(&keys) {
            for idle in Idle::ALL {
                let view = View { by, idle };
                let link = view.link(&Scope::default());
                let query = link.split_once('?').map_or("", |(_, query)| query);
                assert_eq!(View::parse(query, &keys), view, "{link}");
            }
        }
        assert_eq!(View::parse("by=x&idle=y", &keys), View::default());
        assert_eq!(View::parse("by=key:team", &[]), View::default(), "a key that is configured no longer");
    }
}
