//! Bars over time: the phases of the request, and the other spans of its trace.

use leptos::prelude::*;
use viz::format::{self, Unit};
use viz::timeline::{Piece, lane};

use super::Key;
use crate::ask::{Answer, Row};
use crate::sql::{Where, literal};

/// Spans drawn; a trace may hold thousands.
const SPANS: usize = 200;

pub(super) fn sql(key: &Key<'_>) -> String {
    let filter = Where::span(key.window).and(format!("trace_id = {}", literal(key.trace)));
    format!(
        "SELECT time, service, name, kind, span_id, parent_span_id, time_unix_nano, end_unix_nano, status, region\nFROM spans\n{}\nORDER BY time_unix_nano, span_id\nLIMIT {SPANS}",
        filter.clause()
    )
}

/// Queue, prefill and decode, and what is left of the whole.
pub(super) fn phases(row: &Row<'_>) -> AnyView {
    let whole = row.number("e2e_s").unwrap_or(0.0);
    let mut at = 0.0;
    let mut pieces = Vec::new();
    let parts = [("queue", "queue_s", "queue"), ("prefill", "prefill_s", "prefill"), ("decode", "decode_s", "decode")];
    for (name, column, style) in parts {
        if let Some(wide) = row.number(column).filter(|wide| *wide >= 0.0) {
            pieces.push(Piece { name: name.to_owned(), span_s: (at, at + wide), style });
            at += wide;
        }
    }
    let width = whole.max(at);
    if pieces.is_empty() || width <= 0.0 {
        return view! { <p class="hint">"The emitter told no phases of this request."</p> }.into_any();
    }
    let rest = (whole - at).max(0.0);
    if rest > width * 0.001 {
        pieces.push(Piece { name: "not accounted for".to_owned(), span_s: (at, at + rest), style: "rest" });
    }
    let legend = pieces.iter().map(|piece| {
        let wide = piece.span_s.1 - piece.span_s.0;
        let share = format::text(Some(wide / width), Unit::Ratio);
        view! {
            <li><i class=format!("dot {}", piece.style)></i>{piece.name.clone()}<b>{format::text(Some(wide), Unit::Seconds)}</b><span class="note">{share}</span></li>
        }
    });
    let legend = legend.collect_view();
    view! { <div class="figure tall" inner_html=lane(&pieces, width)></div><ul class="legend">{legend}</ul> }.into_any()
}

struct Span {
    depth: usize,
    name: String,
    service: String,
    from_s: f64,
    to_s: f64,
    own: bool,
    failed: bool,
}

/// One lane per span, parents above their children.
pub(super) fn view(answer: &Answer, request: &Row<'_>) -> AnyView {
    let spans = ordered(answer, request.text("span_id").unwrap_or_default());
    if spans.is_empty() {
        return view! { <p class="hint">"No other span of this trace has arrived."</p> }.into_any();
    }
    let width = spans.iter().map(|span| span.to_s).fold(1e-6, f64::max);
    let wait_s = first_token_s(&spans, request);
    let lines = spans.into_iter().map(|span| {
        let style = match (span.failed, span.own) {
            (true, _) => "failed",
            (false, true) => "own",
            (false, false) => "other",
        };
        let piece = Piece { name: span.name.clone(), span_s: (span.from_s, span.to_s), style };
        let class = format!("depth-{}", span.depth.min(6));
        let share = wait_s.map(|wait| (span.to_s.min(wait) - span.from_s).max(0.0) / wait);
        view! {
            <tr>
                <th scope="row" class=class>{span.name}<small>{span.service}</small></th>
                <td class="bar" inner_html=lane(&[piece], width)></td>
                <td class="num">{format::text(Some(span.to_s - span.from_s), Unit::Seconds)}</td>
                <td class="num">{format::text(share, Unit::Ratio)}</td>
            </tr>
        }
    });
    let lines = lines.collect_view();
    view! {
        <table class="lanes">
            <thead><tr><th>"span"</th><th>{format!("0 – {}", format::text(Some(width), Unit::Seconds))}</th><th class="num">"duration"</th><th class="num">"of the wait"</th></tr></thead>
            <tbody>{lines}</tbody>
        </table>
    }
    .into_any()
}

/// When the user saw the first token, in seconds since the trace began: that of this request after its own span began.
fn first_token_s(spans: &[Span], request: &Row<'_>) -> Option<f64> {
    let own = spans.iter().find(|span| span.own)?;
    Some(own.from_s + request.number("ttft_s")?).filter(|wait| *wait > 0.0)
}

/// Spans depth first, each parent before its children; a span whose parent is unknown is a root.
fn ordered(answer: &Answer, own: &str) -> Vec<Span> {
    let rows: Vec<Row<'_>> = answer.rows().collect();
    let id = |row: &Row<'_>| row.text("span_id").unwrap_or_default().to_owned();
    let ids: Vec<String> = rows.iter().map(id).collect();
    let start = rows.iter().filter_map(|row| row.number("time_unix_nano")).fold(f64::INFINITY, f64::min);
    let parent_of = |row: &Row<'_>| {
        let parent = row.text("parent_span_id")?;
        ids.iter().position(|id| id == parent)
    };
    let parents: Vec<Option<usize>> = rows.iter().map(parent_of).collect();
    let mut seen = vec![false; rows.len()];
    let mut out = Vec::with_capacity(rows.len());
    // A stack instead of recursion: depth comes from outside. Roots last, so that the first is on top.
    let mut stack: Vec<(usize, usize)> =
        (0..rows.len()).rev().filter(|index| parents[*index].is_none()).map(|index| (index, 0)).collect();
    while let Some((index, depth)) = stack.pop() {
        let Some(row) = rows.get(index) else { continue };
        if std::mem::replace(&mut seen[index], true) {
            continue;
        }
        let seconds = |column: &str| row.number(column).map_or(0.0, |nanos| (nanos - start) / 1e9);
        let from_s = seconds("time_unix_nano");
        out.push(Span {
            depth,
            name: row.text("name").unwrap_or(format::UNKNOWN).to_owned(),
            service: row.text("service").unwrap_or_default().to_owned(),
            from_s,
            to_s: seconds("end_unix_nano").max(from_s),
            own: ids[index] == own,
            failed: row.text("status") == Some("error"),
        });
        stack.extend(
            (0..rows.len()).rev().filter(|child| parents[*child] == Some(index)).map(|child| (child, depth + 1)),
        );
    }
    out
}
