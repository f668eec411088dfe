//! Where the palette leads when no name matched: pages by name, nodes, and calls by trace, span or request id.

use leptos::prelude::*;
use viz::format::{self, Unit};

use super::{logs, requests};
use crate::ask::{Answer, Asked};
use crate::frame::{self, Place, Sheet, keys};
use crate::panel::{answered, hint, panel};
use crate::server::{App, Visit};
use crate::sql::{Where, literal};
use crate::urlstate::{Fields, Scope, path};

/// Traces are looked for in as many days as tokens are kept, µs.
const KEPT_US: i64 = 7 * 86_400_000_000;

/// Nodes are looked for in this stretch, µs.
const NODES_US: i64 = 30 * 86_400_000_000;

pub(crate) async fn page(app: &App, visit: &Visit) -> String {
    let scope = Scope::parse(&visit.query);
    let wanted = Fields::parse(&visit.query).text("q");
    let ask = |name, sql| app.asker.panel(name, visit.now_us, sql);
    let choices = frame::choices(app, visit, &scope).await;
    let (nodes, calls) = match &wanted {
        None => (None, None),
        Some(wanted) => {
            let calls = async {
                match calls_sql(wanted, visit.now_us) {
                    Some(sql) => Some(ask("find.calls", sql).await),
                    None => None,
                }
            };
            let (nodes, calls) = tokio::join!(ask("find.nodes", nodes_sql(wanted, visit.now_us)), calls);
            (Some(nodes), calls)
        }
    };
    frame::render(app, visit, || {
        let typed = wanted.clone().unwrap_or_default();
        let named = named(&typed, &scope, &choices);
        let nodes = nodes.map(|asked| {
            let body = answered(visit, &asked, |answer| nodes_of(answer, &scope));
            panel("nodes", "Nodes of the last 30 days", "", &[&asked], body)
        });
        let calls = calls.map(|asked| {
            let body = answered(visit, &asked, |answer| {
                requests::calls(
                    "Calls",
                    "No call has this id. It may not have arrived yet: a span is sent when it ends.",
                    answer,
                    &scope,
                )
            });
            panel("calls", "Calls of the last seven days", "by trace, span or request id", &[&asked], body)
        });
        let logs = is_trace(&typed)
            .then(|| view! { <p class="pager"><a href=logs::of_trace(&scope, &typed)>"Logs of this trace"</a></p> });
        let body = view! {
            <form class="filters find" method="get" action="/go">
                <label><span>"page, region, model, tenant, node, trace, span or request id"</span><input type="search" name="q" value=typed autofocus=""/></label>
                <button class="main">"Find"</button>
            </form>
            {calls}{logs}
            {panel("names", "By name", "", &[], named)}
            {nodes}
        }
        .into_any();
        Sheet { body, ..Sheet::new("Go to", Place::Elsewhere, scope.clone()) }
    })
}

/// Pages, regions, models and tenants that have the words in their name.
fn named(typed: &str, scope: &Scope, choices: &Asked) -> AnyView {
    let typed = typed.to_lowercase();
    let links: Vec<_> = keys::targets(scope, Some(choices))
        .into_iter()
        .filter(|(kind, name, _)| format!("{kind} {name}").to_lowercase().contains(&typed))
        .map(|(kind, name, link)| view! { <li><a href=link>{name}</a>" "<span class="note">{kind}</span></li> })
        .collect();
    if links.is_empty() {
        return hint("Nothing has that in its name.");
    }
    view! { <ul class="starts">{links}</ul> }.into_any()
}

fn is_trace(typed: &str) -> bool {
    typed.len() == 32 && typed.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn nodes_sql(wanted: &str, now_us: i64) -> String {
    let clause = Where::span((now_us - NODES_US, now_us))
        .and(format!("strpos(lower(host_id), {}) > 0", literal(&wanted.to_lowercase())));
    format!(
        "SELECT host_id, max(region) AS region, max(host_type) AS host_type, max(time) AS last\nFROM nodes\n{}\nGROUP BY host_id\nORDER BY host_id\nLIMIT 20",
        clause.clause()
    )
}

/// Nothing that is no id is looked for among calls: that would read all of them.
fn calls_sql(wanted: &str, now_us: i64) -> Option<String> {
    let hex = wanted.bytes().all(|byte| byte.is_ascii_hexdigit());
    let (column, value) = match wanted.len() {
        32 if hex => ("trace_id", wanted.to_ascii_lowercase()),
        16 if hex => ("span_id", wanted.to_ascii_lowercase()),
        9.. if !wanted.contains(' ') => ("request_id", wanted.to_owned()),
        _ => return None,
    };
    let clause = Where::span((now_us - KEPT_US, now_us + 600_000_000)).and(format!("{column} = {}", literal(&value)));
    Some(format!(
        "SELECT time, trace_id, span_id, region, host_id, model, tenant, status, measured_at, queue_s, prefill_s, ttft_s, tpot_s, itl_max_s, e2e_s\nFROM requests\n{}\nORDER BY time\nLIMIT 50",
        clause.clause()
    ))
}

fn nodes_of(answer: &Answer, scope: &Scope) -> AnyView {
    let links: Vec<_> = answer
        .rows()
        .filter_map(|row| {
            let host = row.text("host_id")?.to_owned();
            let link = scope.link(&path(&["node", &host]));
            let place = [row.text("host_type"), row.text("region")];
            let place = place.into_iter().flatten().collect::<Vec<_>>().join(" in ");
            Some(view! { <li><a href=link>{host}</a>" "<span class="note">{place}</span></li> })
        })
        .collect();
    if links.is_empty() {
        return hint("No node has that in its name.");
    }
    let count = format::text(Some(links.len() as f64), Unit::Count);
    view! { <ul class="starts">{links}</ul><p class="hint">{format!("{count} found, at most 20")}</p> }.into_any()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_are_looked_for_among_calls() {
        let column = |wanted: &str| {
            calls_sql(wanted, 0)
                .and_then(|sql| sql.split(" = ").next().map(|head| head.rsplit(' ').next().unwrap().to_owned()))
        };
        assert_eq!(column("4bf92f3577b34da6a3ce929d0e0e4736").as_deref(), Some("trace_id"));
        assert_eq!(column("00F067AA0BA902B7").as_deref(), Some("span_id"));
        assert_eq!(column("chatcmpl-8f2").as_deref(), Some("request_id"));
        assert_eq!(column("acme"), None);
        assert!(calls_sql("x'or'1'='1'--", 0).unwrap().contains("request_id = 'x''or''1''=''1''--'"));
    }
}
