//! Objectives: which of them burn, and how much of their budgets is left.

pub(crate) mod detail;
pub(crate) mod terms;

use leptos::prelude::*;
use terms::{Burn, State, Terms};
use viz::bar::{Part, bar};
use viz::format;

use crate::ask::{Asked, Failure};
use crate::frame::{self, Place, Sheet};
use crate::panel::{answered, heads, panel, table};
use crate::server::{App, Visit};
use crate::urlstate::{Scope, path};

/// What is known of all objectives.
pub(crate) struct Objectives {
    pub(crate) terms: Asked,
    pub(crate) burn: Asked,
    pub(crate) budget: Asked,
    /// The end of the range, µs: what is said of the present is said of this instant.
    pub(crate) to_us: i64,
}

/// Asks for all objectives at the end of a range.
pub(crate) async fn ask(app: &App, visit: &Visit, scope: &Scope) -> Objectives {
    let (from, to) = scope.resolve(visit.now_us);
    let key = scope.all().link("");
    let terms = app.asker.kept("slo.terms", &key, visit.now_us, terms::terms_sql(to)).await;
    let known = terms.outcome.as_ref().map(terms::terms).unwrap_or_default();
    // The newest minute with calls may be a while ago; beyond the longest stretch it says nothing.
    let span = (from.min(to - 6 * 3_600_000_000), to);
    let (burn, budget) = tokio::join!(
        app.asker.kept("slo.burn", &key, visit.now_us, terms::burn_sql(span)),
        app.asker.kept("slo.budget", &key, visit.now_us, terms::budget_sql(&known, to)),
    );
    Objectives { terms, burn, budget, to_us: to }
}

impl Objectives {
    /// Terms, burn and budget left, the worst first.
    fn worst_first(&self) -> Vec<(Terms, Burn, Option<f64>)> {
        let known = self.terms.outcome.as_ref().map(terms::terms).unwrap_or_default();
        let mut all: Vec<_> = known
            .into_iter()
            .map(|terms| {
                let burn = terms::burn(&self.burn, &terms.name, self.to_us);
                let left = terms::left(&self.budget, &terms);
                (terms, burn, left)
            })
            .collect();
        let speed = |burn: &Burn| burn.over_1h.unwrap_or(-1.0);
        all.sort_by(|a, b| speed(&b.1).total_cmp(&speed(&a.1)).then_with(|| a.0.name.cmp(&b.0.name)));
        all
    }

    pub(crate) fn asked(&self) -> [&Asked; 3] {
        [&self.terms, &self.burn, &self.budget]
    }

    /// The worst few as links, for the top of the Overview; nothing where there are no objectives.
    pub(crate) fn strip(&self, scope: &Scope) -> Option<AnyView> {
        const SHOWN: usize = 4;
        let all = self.worst_first();
        let lines: Vec<_> = all
            .iter()
            .take(SHOWN)
            .map(|(terms, burn, left)| {
                let (word, class) = State::of(burn, *left).shown();
                let times = |burn: Option<f64>| burn.map_or_else(|| format::UNKNOWN.to_owned(), |burn| format!("{burn:.1}×"));
                view! {
                    <li><a href=link(scope, terms)>
                        <span class=class>{word}</span><b>{terms.name.clone()}</b>
                        <span class="note">{format!("burn {} in 1 h, {} in 5 min · budget left {}", times(burn.over_1h), times(burn.over_5m), terms::left_words(*left))}</span>
                    </a></li>
                }
            })
            .collect();
        let rest = (all.len() > SHOWN).then(
            || view! { <li class="rest"><a href=scope.link("/slo")>{format!("all {} objectives", all.len())}</a></li> },
        );
        (!lines.is_empty()).then(|| {
            view! { <section id="slos" data-refresh="" aria-label="Objectives"><ul class="strip">{lines}{rest}</ul></section> }
                .into_any()
        })
    }
}

fn link(scope: &Scope, terms: &Terms) -> String {
    scope.link(&path(&["slo", &terms.name]))
}

pub(crate) async fn page(app: &App, visit: &Visit) -> String {
    let scope = Scope::parse(&visit.query);
    let (choices, objectives) = tokio::join!(frame::choices(app, visit, &scope), ask(app, visit, &scope));
    frame::render(app, visit, || {
        let list = answered(visit, &objectives.terms, |answer| match answer.first() {
            Some(_) => list(&objectives, &scope),
            None => none(),
        });
        let failed = [&objectives.burn, &objectives.budget].map(|asked| {
            asked.outcome.as_ref().err().map(|failure: &Failure| crate::panel::failed(visit, failure, &asked.sql))
        });
        let note =
            "burn: share of calls that were not good ÷ share that may be; at 1× the budget lasts exactly its window";
        let body = view! {
            {failed.into_iter().collect_view()}
            {panel("objectives", "Objectives", note, &objectives.asked(), list)}
        }
        .into_any();
        Sheet {
            renews: true,
            body,
            choices: Some(choices),
            ..Sheet::new("SLOs", Place::Slo, scope.clone()).told_by(&[&objectives.burn, &objectives.budget])
        }
    })
}

/// How to get objectives.
fn none() -> AnyView {
    view! {
        <div class="card">
            <p><strong>"There are no objectives."</strong>" Write some into "<code>"tokenwatt.toml"</code>"; they hold from the next start on:"</p>
            <pre>"[[slo]]\nname = \"ttft-eu\"\nindicator = \"ttft_s\"     # or tpot_s, e2e_s, queue_s, itl_max_s, availability\nthreshold = 1.0            # seconds\nobjective = 0.99           # share of calls that must be good\nregion = \"eu-west-1\"       # region, model and tenant may be left out"</pre>
        </div>
    }
    .into_any()
}

fn list(objectives: &Objectives, scope: &Scope) -> AnyView {
    let all = objectives.worst_first();
    let lines: Vec<_> = all.iter().map(|(terms, burn, left)| line(terms, burn, *left, scope)).collect();
    let head = heads(&["state", "objective", "#5 min", "#30 min", "#1 h", "#6 h", "#budget left", "", "what it says"]);
    table("Objectives", head, lines.into_any())
}

fn line(terms: &Terms, burn: &Burn, left: Option<f64>, scope: &Scope) -> AnyView {
    let (word, class) = State::of(burn, left).shown();
    let rate = |value: Option<f64>, limit: f64| {
        let over = value.is_some_and(|value| value >= limit);
        let text = value.map_or_else(|| format::UNKNOWN.to_owned(), |value| format!("{value:.1}×"));
        view! { <td class="num" class:crit=over>{text}</td> }
    };
    let share = left.unwrap_or(0.0).clamp(0.0, 1.0);
    let style = if share > 0.25 { "left" } else { "failed" };
    view! {
        <tr>
            <td><span class=class>{word}</span></td>
            <th scope="row"><a href=link(scope, terms)>{terms.name.clone()}</a></th>
            {rate(burn.over_5m, terms::FAST)}
            {rate(burn.over_30m, terms::SLOW)}
            {rate(burn.over_1h, terms::FAST)}
            {rate(burn.over_6h, terms::SLOW)}
            <td class="num" class:crit=left.is_some_and(|left| left <= 0.0)>{terms::left_words(left)}</td>
            <td class="shares" inner_html=bar(&[Part { name: "budget left", share, style }])></td>
            <td class="say">{terms.sentence()}</td>
        </tr>
    }
    .into_any()
}
