//! Logs: found by words, severity, service and node, the newest first, each with the way to its trace.

use leptos::prelude::*;
use viz::format;

use super::requests::stamp;
use crate::ask::{Answer, Asked, Row};
use crate::frame::{self, Place, Sheet};
use crate::panel::plot::{Axis, series_of, stack_chart};
use crate::panel::{answered, empty, heads, hint, panel, table};
use crate::server::{App, Visit};
use crate::sql::{Where, bucket, instant, literal, step};
use crate::urlstate::{Dimension, Fields, Scope, path};

/// Records on a page.
const PAGE: usize = 200;

/// What logs know of a scope.
const FILTERS: &[Dimension] = &[Dimension::Region, Dimension::Tenant, Dimension::Hardware];

/// Least severities one may ask for: name, first number of OTLP's scale.
const SEVERITIES: [(&str, u8); 4] = [("debug", 5), ("info", 9), ("warn", 13), ("error", 17)];

/// What of the logs is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Filter {
    words: Option<String>,
    /// Name out of [`SEVERITIES`].
    least: Option<&'static str>,
    service: Option<String>,
    host: Option<String>,
    trace: Option<String>,
    /// Only records before this instant: the page after another.
    before: Option<i64>,
}

impl Filter {
    fn parse(query: &str) -> Self {
        let fields = Fields::parse(query);
        let least = fields.text("severity");
        Self {
            words: fields.text("words"),
            least: SEVERITIES.into_iter().map(|(name, _)| name).find(|name| least.as_deref() == Some(name)),
            service: fields.text("service"),
            host: fields.text("host"),
            trace: fields.text("trace").filter(|id| id.bytes().all(|byte| byte.is_ascii_hexdigit())),
            before: fields.text("before").and_then(|text| {
                let at_us: i64 = text.parse().ok()?;
                crate::urlstate::is_instant(at_us).then_some(at_us)
            }),
        }
    }

    fn fields(&self) -> Fields {
        let mut fields = Fields::default();
        let texts = [
            ("words", self.words.as_deref()),
            ("severity", self.least),
            ("service", self.service.as_deref()),
            ("host", self.host.as_deref()),
            ("trace", self.trace.as_deref()),
        ];
        for (name, value) in texts {
            if let Some(value) = value {
                fields.set(name, value.to_owned());
            }
        }
        if let Some(before) = self.before {
            fields.set("before", before.to_string());
        }
        fields
    }

    fn link(&self, scope: &Scope) -> String {
        let mut fields = scope.fields();
        self.fields().iter().for_each(|(name, value)| fields.set(name, value.to_owned()));
        fields.link("/logs")
    }

    fn clause(&self, scope: &Scope, span: (i64, i64)) -> Where {
        let mut clause = Where::of(scope, span, FILTERS)
            .and_equal("service", self.service.as_deref())
            .and_equal("host_id", self.host.as_deref())
            .and_equal("trace_id", self.trace.as_deref());
        if let Some(words) = &self.words {
            clause = clause.and(format!("strpos(lower(body), {}) > 0", literal(&words.to_lowercase())));
        }
        if let Some((_, number)) = SEVERITIES.into_iter().find(|(name, _)| self.least == Some(name)) {
            clause = clause.and(format!("severity_number >= {number}"));
        }
        clause
    }
}

/// The logs of a node.
pub(crate) fn link(scope: &Scope, host: &str) -> String {
    Filter { host: Some(host.to_owned()), ..Filter::default() }.link(&scope.all())
}

/// The logs of a trace.
pub(crate) fn of_trace(scope: &Scope, trace: &str) -> String {
    Filter { trace: Some(trace.to_owned()), ..Filter::default() }.link(scope)
}

pub(crate) async fn page(app: &App, visit: &Visit) -> String {
    let (scope, filter) = (Scope::parse(&visit.query), Filter::parse(&visit.query));
    let span = scope.resolve(visit.now_us);
    let ask = |name, sql| app.asker.panel(name, visit.now_us, sql);
    let (choices, list, course) = tokio::join!(
        frame::choices(app, visit, &scope),
        ask("logs.records", records_sql(&filter, &scope, span)),
        ask("logs.course", course_sql(&filter, &scope, span)),
    );
    frame::render(app, visit, || {
        let axis = Axis { span_us: span, step_s: step(span) };
        let rows = answered(visit, &list, |answer| match answer.first() {
            Some(_) => view! { {self::list(answer, &scope)}{pager(answer, &filter, &scope)} }.into_any(),
            None => nothing(app, &scope, &filter, &choices),
        });
        let columns = answered(visit, &course, |answer| over_time(answer, axis));
        let some = !matches!(&list.outcome, Ok(answer) if answer.first().is_none());
        let sheet = Sheet::new("Logs", Place::Logs, scope.clone()).told_by(&[&list, &choices]);
        let note = format!("{} s columns", axis.step_s);
        let course = some.then(|| panel("course", "Records over time", &note, &[&course], columns));
        let body = view! {
            {form(&scope, &filter)}
            {course}
            {panel("records", "Records", "newest first", &[&list], rows)}
        }
        .into_any();
        Sheet {
            filters: FILTERS,
            keep: Filter { before: None, ..filter.clone() }.fields(),
            // A list that is being paged through must not move under the reader.
            renews: filter.before.is_none(),
            body,
            choices: Some(choices),
            ..sheet
        }
    })
}

fn records_sql(filter: &Filter, scope: &Scope, (from, to): (i64, i64)) -> String {
    let mut clause = filter.clause(scope, (from, to));
    if let Some(before) = filter.before {
        clause = clause.and(format!("time < {}", instant(before)));
    }
    format!(
        "SELECT time, severity, severity_number, service, host_id, region, body, event_name, trace_id, span_id\nFROM logs\n{}\nORDER BY time DESC\nLIMIT {}",
        clause.clause(),
        PAGE + 1
    )
}

fn course_sql(filter: &Filter, scope: &Scope, span: (i64, i64)) -> String {
    let between = |from: u8, to: u8, name: &str| {
        format!("sum(CASE WHEN severity_number >= {from} AND severity_number < {to} THEN 1 ELSE 0 END) AS {name}")
    };
    format!(
        "SELECT {},\n  {},\n  {},\n  {},\n  sum(CASE WHEN severity_number >= 9 THEN 0 ELSE 1 END) AS rest\nFROM logs\n{}\nGROUP BY bucket\nORDER BY bucket",
        bucket(step(span)),
        between(17, 25, "error"),
        between(13, 17, "warn"),
        between(9, 13, "info"),
        filter.clause(scope, span).clause()
    )
}

fn over_time(answer: &Answer, axis: Axis) -> AnyView {
    let columns = [("error", "error", 0), ("warn", "warning", 0), ("info", "info", 0), ("rest", "below or unknown", 0)];
    let styles = ["failed", "queue", "decode", "rest"];
    stack_chart(&axis.chart("Records over time", format::Unit::Count, answer, series_of(answer, &columns)), &styles)
}

fn nothing(app: &App, scope: &Scope, filter: &Filter, choices: &Asked) -> AnyView {
    if *filter != Filter::default() {
        let all = Filter::default().link(scope);
        return view! { <div class="card"><p>"No record matches the filters in this range."</p><p class="links"><a href=all>"All records of the range"</a></p></div> }.into_any();
    }
    if matches!(&choices.outcome, Ok(answer) if answer.first().is_some()) {
        return view! {
            <div class="card">
                <p><strong>"No log record in this range."</strong>" Calls there are: their emitters send no logs, or not here."</p>
                <p>"OTLP logs are taken where traces are, and Loki's push API beside it (docs/receivers.md)."</p>
            </div>
        }
        .into_any();
    }
    empty(app, scope, choices, "log records")
}

fn form(scope: &Scope, filter: &Filter) -> AnyView {
    let hidden: Vec<_> = scope
        .fields()
        .iter()
        .map(|(name, value)| view! { <input type="hidden" name=name.to_owned() value=value.to_owned()/> })
        .collect();
    let severities = SEVERITIES.map(|(name, _)| {
        let selected = filter.least == Some(name);
        view! { <option value=name selected=selected>{name}</option> }
    });
    let clear = (*filter != Filter::default())
        .then(|| view! { <a class="quiet" href=Filter::default().link(scope)>"Clear"</a> });
    let field = |name: &'static str, label: &'static str, value: &Option<String>| {
        view! { <label><span>{label}</span><input type="search" name=name value=value.clone()/></label> }
    };
    view! {
        <form class="filters" method="get" action="/logs">
            {field("words", "text contains", &filter.words)}
            <label><span>"severity at least"</span>
                <select name="severity"><option value="">"all"</option>{severities.into_iter().collect_view()}</select>
            </label>
            {field("service", "service", &filter.service)}
            {field("host", "node", &filter.host)}
            {field("trace", "trace id", &filter.trace)}
            {hidden}
            <button>"Filter"</button>
            {clear}
        </form>
    }
    .into_any()
}

/// Records as a table; shared with the node's page.
pub(crate) fn list(answer: &Answer, scope: &Scope) -> AnyView {
    if answer.first().is_none() {
        return hint("No record in this range.");
    }
    let lines: Vec<_> = answer.rows().take(PAGE).map(|row| line(&row, scope)).collect();
    table("Log records", heads(&["time (UTC)", "severity", "service", "record", "trace"]), lines.into_any())
}

fn line(row: &Row<'_>, scope: &Scope) -> AnyView {
    let number = row.number("severity_number").unwrap_or(0.0);
    let class = match number {
        n if n >= 17.0 => "status error",
        n if n >= 13.0 => "status warn",
        n if n >= 9.0 => "status ok",
        _ => "status",
    };
    let at = row.time("time").map_or_else(|| format::UNKNOWN.to_owned(), stamp);
    let host = row.text("host_id").map(|host| {
        let link = scope.link(&path(&["node", host]));
        view! { <small><a href=link>{host.to_owned()}</a></small> }
    });
    let trace = row.text("trace_id").map(|trace| {
        let mut fields = Fields::default();
        fields.set("q", trace.to_owned());
        view! { <a href=fields.link("/go")><code>{trace.get(..8).unwrap_or(trace).to_owned()}</code></a> }
    });
    let body = row.text("body").or_else(|| row.text("event_name")).unwrap_or(format::UNKNOWN).to_owned();
    view! {
        <tr>
            <th scope="row">{at}</th>
            <td><span class=class>{row.text("severity").unwrap_or(format::UNKNOWN).to_lowercase()}</span></td>
            <td>{row.text("service").unwrap_or(format::UNKNOWN).to_owned()}{host}</td>
            <td class="wide">{body}</td>
            <td>{trace}</td>
        </tr>
    }
    .into_any()
}

/// The page after this one. Records of one instant that straddle two pages stay on the first: the key is the instant alone, so the
/// last instant's records are shown again rather than lost.
fn pager(answer: &Answer, filter: &Filter, scope: &Scope) -> AnyView {
    let last = answer.rows().nth(PAGE - 1).and_then(|row| row.time("time"));
    let older = last.filter(|_| answer.rows().nth(PAGE).is_some()).map(|at| {
        let link = Filter { before: Some(at + 1), ..filter.clone() }.link(scope);
        view! { <a rel="next" href=link>"Older"</a> }
    });
    let newest = filter.before.is_some().then(|| {
        let link = Filter { before: None, ..filter.clone() }.link(scope);
        view! { <a href=link>"Newest"</a> }
    });
    view! { <p class="pager">{newest}{older}</p> }.into_any()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_survive_their_own_url() {
        let filter = Filter {
            words: Some("out of memory: 100%".into()),
            least: Some("warn"),
            service: Some("llm-server".into()),
            host: Some("euw1-inf2-a".into()),
            trace: Some("4bf92f3577b34da6a3ce929d0e0e4736".into()),
            before: Some(1_795_953_600_000_001),
        };
        let link = filter.link(&Scope::default());
        assert_eq!(Filter::parse(link.split_once('?').unwrap().1), filter);
        for nonsense in ["severity=loud&trace=x'y&before=z", "before=9223372036854775807", "before=-1"] {
            assert_eq!(Filter::parse(nonsense), Filter::default(), "{nonsense}");
        }
    }

    #[test]
    fn words_stay_inside_their_quotes() {
        let filter = Filter { words: Some("It's 100%".into()), ..Filter::default() };
        let sql = records_sql(&filter, &Scope::default(), (0, 1));
        assert!(sql.contains("strpos(lower(body), 'it''s 100%') > 0"), "{sql}");
    }
}
