//! The list of requests: filters in the URL, fifty rows a page, the next page found by key.

use leptos::prelude::*;
use viz::format::{self, Unit};

use crate::ask::{Answer, Row};
use crate::frame::{self, Place, Sheet};
use crate::panel::plot::{Axis, series_of, stack_chart};
use crate::panel::{self, answered, empty, heads, hint, number, panel, text};
use crate::server::{App, Visit};
use crate::sql;
use crate::urlstate::{Dimension, Fields, RequestFilter, Scope, Sort, path};

pub(crate) async fn page(app: &App, visit: &Visit) -> String {
    let scope = Scope::parse(&visit.query);
    let filter = RequestFilter::parse(&visit.query);
    let span = scope.resolve(visit.now_us);
    let (choices, list, course) = tokio::join!(
        frame::choices(app, visit, &scope),
        app.asker.panel("requests.list", visit.now_us, sql::requests(&scope, &filter, span)),
        app.asker.panel("requests.course", visit.now_us, sql::requests_over_time(&scope, &filter, span)),
    );
    frame::render(app, visit, || {
        let rows = answered(visit, &list, |answer| match answer.first() {
            Some(_) => table(answer, &scope, &filter),
            None => empty(app, &scope, &choices, "requests"),
        });
        let axis = Axis { span_us: span, step_s: sql::step(span) };
        let columns = answered(visit, &course, |answer| by_status(answer, axis));
        let note = format!("arrived in {} s; drag over it to narrow the range", axis.step_s);
        let body = view! {
            {filters(&scope, &filter)}
            {panel("course", "Requests by how they ended", &note, &[&course], columns)}
            {panel("requests", "Requests", "each call once, as measured nearest to the engine; TTFT from arrival to first token", &[&list], rows)}
        }
        .into_any();
        Sheet {
            filters: &Dimension::ALL,
            keep: own_fields(&filter),
            // A list that is being read must not move under the reader.
            renews: false,
            body,
            choices: Some(choices),
            ..Sheet::new("Requests", Place::Requests, scope.clone()).told_by(&[&list])
        }
    })
}

fn by_status(answer: &Answer, axis: Axis) -> AnyView {
    let columns = [("ok", "ok", 0), ("error", "error", 0), ("cancelled", "cancelled", 0)];
    let chart = axis.chart("Requests by how they ended", Unit::Count, answer, series_of(answer, &columns));
    stack_chart(&chart, &["decode", "failed", "rest"])
}

/// The fields of this page that the scope bar must carry along; a page's key makes no sense in another range.
fn own_fields(filter: &RequestFilter) -> Fields {
    let link = RequestFilter { after: None, ..filter.clone() }.link(&Scope::default());
    Fields::parse(link.split_once('?').map_or("", |(_, query)| query))
}

fn filters(scope: &Scope, filter: &RequestFilter) -> AnyView {
    let mut kept = scope.fields();
    if filter.sort != Sort::default() {
        kept.set("sort", filter.sort.name().to_owned());
    }
    let hidden: Vec<_> = kept
        .iter()
        .map(|(name, value)| view! { <input type="hidden" name=name.to_owned() value=value.to_owned()/> })
        .collect();
    let statuses = ["ok", "error", "cancelled"].map(|status| {
        let selected = filter.status.as_deref() == Some(status);
        view! { <option value=status selected=selected>{status}</option> }
    });
    let filtered = filter.status.is_some() || filter.min_ttft_ms.is_some() || filter.host.is_some();
    let clear = filtered.then(|| {
        let link = RequestFilter { sort: filter.sort, ..RequestFilter::default() }.link(scope);
        view! { <a class="quiet" href=link>"Clear"</a> }
    });
    view! {
        <form class="filters" method="get" action="/requests">
            <label><span>"status"</span>
                <select name="status"><option value="">"all"</option>{statuses.into_iter().collect_view()}</select>
            </label>
            <label><span>"TTFT at least (ms)"</span>
                <input type="number" name="min_ttft_ms" min="0" step="any" value=filter.min_ttft_ms.map(|ms| ms.to_string())/>
            </label>
            <label><span>"node"</span><input type="search" name="host" value=filter.host.clone()/></label>
            {hidden}
            <button>"Filter"</button>
            {clear}
        </form>
    }
    .into_any()
}

fn table(answer: &Answer, scope: &Scope, filter: &RequestFilter) -> AnyView {
    let rows: Vec<Row<'_>> = answer.rows().take(sql::PAGE).collect();
    let more = answer.rows().nth(sql::PAGE).is_some();
    let next = more.then(|| rows.last().and_then(|row| key(row, filter.sort))).flatten().map(|after| {
        let link = RequestFilter { after: Some(after), ..filter.clone() }.link(scope);
        view! { <a rel="next" href=link>"Next 50"</a> }
    });
    let first = filter.after.is_some().then(|| {
        let link = RequestFilter { after: None, ..filter.clone() }.link(scope);
        view! { <a href=link>"First page"</a> }
    });
    let lines = rows.iter().map(|row| line(row, scope));
    view! {
        <div class="scroll" tabindex="0" role="region" aria-label="Table of requests">
            <table class="list">
                <thead><tr>
                    {head(&panel::zoned("started (UTC)"), Some(Sort::Time), scope, filter)}
                    <th>"status"</th><th>"region"</th><th>"model"</th><th>"tenant"</th>
                    <th class="num">"in"</th><th class="num">"out"</th><th class="num">"queue"</th>
                    {head("TTFT", Some(Sort::Ttft), scope, filter)}
                    <th class="num">"longest gap"</th>
                    {head("end to end", Some(Sort::E2e), scope, filter)}
                    <th>"node"</th>
                </tr></thead>
                <tbody>{lines.collect_view()}</tbody>
            </table>
        </div>
        <p class="pager">{first}{next}</p>
    }
    .into_any()
}

/// A heading that orders the table when followed.
fn head(name: &str, sort: Option<Sort>, scope: &Scope, filter: &RequestFilter) -> AnyView {
    let name = name.to_owned();
    let Some(sort) = sort else { return view! { <th>{name}</th> }.into_any() };
    let class = if sort == Sort::Time { "" } else { "num" };
    let current = sort == filter.sort;
    let link = RequestFilter { sort, after: None, ..filter.clone() }.link(scope);
    view! { <th class=class aria-sort=current.then_some("descending")><a href=link>{name}{current.then_some(" ↓")}</a></th> }.into_any()
}

fn key(row: &Row<'_>, sort: Sort) -> Option<(String, String)> {
    let value = match sort {
        Sort::Time => row.text("time")?.to_owned(),
        Sort::Ttft | Sort::E2e => format!("{:?}", row.number(sort.column())?),
    };
    Some((value, row.text("span_id")?.to_owned()))
}

/// Where a request's own page is. `t` spares the query a search through all days.
pub(crate) fn request_link(row: &Row<'_>, scope: &Scope) -> Option<String> {
    let mut fields = scope.fields();
    fields.set("t", (row.time("time")? / 1_000).to_string());
    Some(fields.link(&format!("/request/{}/{}", row.text("trace_id")?, row.text("span_id")?)))
}

fn line(row: &Row<'_>, scope: &Scope) -> AnyView {
    let started = row.time("time").map(stamp).unwrap_or_else(|| format::UNKNOWN.to_owned());
    let started = match request_link(row, scope) {
        Some(link) => view! { <a href=link>{started}</a> }.into_any(),
        None => started.into_any(),
    };
    let status = row.text("status").unwrap_or(format::UNKNOWN).to_owned();
    let status_class = format!("status {status}");
    let text = |column: &str| row.text(column).unwrap_or(format::UNKNOWN).to_owned();
    let node = row.text("host_id").map(|host| scope.link(&path(&["node", host])));
    let ended = row.text("finish_reason").map(|reason| format!("finish reason: {reason}"));
    view! {
        <tr>
            <th scope="row">{started}</th>
            <td><span class=status_class title=ended>{status}</span></td>
            <td>{text("region")}</td>
            <td class="long">{text("model")}</td>
            <td>{text("tenant")}</td>
            {number(row.number("input_tokens"), Unit::Count)}
            {number(row.number("output_tokens"), Unit::Count)}
            {number(row.number("queue_s"), Unit::Seconds)}
            {number(row.number("ttft_s"), Unit::Seconds)}
            {number(row.number("itl_max_s"), Unit::Seconds)}
            {number(row.number("e2e_s"), Unit::Seconds)}
            <td><a href=node>{text("host_id")}</a><small>{row.text("host_type").map(str::to_owned)}</small></td>
        </tr>
    }
    .into_any()
}

/// Day and time of day with milliseconds, in the page's zone.
pub(crate) fn stamp(at_us: i64) -> String {
    let text = crate::zone::local(at_us.div_euclid(1_000) * 1_000);
    let (day, time) = text.split_once('T').unwrap_or(("", text.as_str()));
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    format!("{} {clock}.{fraction:0<3}", day.get(5..).unwrap_or(day))
}

/// Calls in rows, each with its link; `nothing` says what it means that there are none. The answer has `time, trace_id, span_id, status, host_id,
/// model, tenant` and the seconds of the columns named here.
pub(crate) fn calls(title: &'static str, nothing: &'static str, answer: &Answer, scope: &Scope) -> AnyView {
    if answer.first().is_none() {
        return hint(nothing);
    }
    let lines: Vec<_> = answer.rows().map(|row| call(&row, scope)).collect();
    let names = [
        "started (UTC)",
        "status",
        "node",
        "model",
        "tenant",
        "#queue",
        "#prefill",
        "#TTFT",
        "#TPOT",
        "#longest gap",
        "#end to end",
    ];
    panel::table(title, heads(&names), lines.into_any())
}

fn call(row: &Row<'_>, scope: &Scope) -> AnyView {
    let started = row.time("time").map_or_else(|| format::UNKNOWN.to_owned(), stamp);
    let status = row.text("status").unwrap_or(format::UNKNOWN).to_owned();
    let class = format!("status {status}");
    let seconds = |column: &str| number(row.number(column), Unit::Seconds);
    let host = row.text("host_id");
    let node = host.map(|host| scope.link(&path(&["node", host])));
    view! {
        <tr>
            <th scope="row"><a href=request_link(row, scope)>{started}</a></th>
            <td><span class=class>{status}</span></td>
            <td><a href=node>{host.unwrap_or(format::UNKNOWN).to_owned()}</a></td>
            {text(row.text("model"))}
            {text(row.text("tenant"))}
            {seconds("queue_s")}{seconds("prefill_s")}{seconds("ttft_s")}{seconds("tpot_s")}{seconds("itl_max_s")}{seconds("e2e_s")}
        </tr>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_align() {
        assert_eq!(stamp(1_795_953_600_000_001), "11-29 12:00:00.000");
        assert_eq!(stamp(1_795_953_600_120_999), "11-29 12:00:00.120");
    }
}
