//! The token timeline and the table below it.

use std::fmt::Write;

use leptos::prelude::*;
use viz::format::{self, Unit};
use viz::reduce::Sample;
use viz::timeline::{self, Course, STALLS, Token};

use super::Key;
use crate::ask::{Answer, Asked};
use crate::sql::{Where, literal};

/// Time around the request in which samples of its engine are sought, µs.
const AROUND_US: i64 = 20_000_000;

/// Rows of the table; the drawing shows all.
const ROWS: usize = 128;

pub(super) fn sql(key: &Key<'_>) -> String {
    let filter = Where::span(key.own)
        .and(format!("trace_id = {}", literal(key.trace)))
        .and(format!("request_span_id = {}", literal(key.span)));
    format!(
        "SELECT time, choice, index, count, batch_size, device_us, stall\nFROM tokens\n{}\nORDER BY choice, index\nLIMIT 20000",
        filter.clause()
    )
}

/// How its engine stood meanwhile, from the last sample before it on.
pub(super) fn context_sql(key: &Key<'_>) -> String {
    let (from, to) = key.own;
    let filter = Where::span((from - AROUND_US, to + AROUND_US))
        .and_equal("kind", Some("engine"))
        .and_equal("host_id", key.host.as_deref())
        .and_equal("instance", key.instance.as_deref());
    format!("SELECT time, waiting, kv_usage\nFROM devices\n{}\nORDER BY time\nLIMIT 5000", filter.clause())
}

/// Lanes of the answer; a host that is unknown has none.
fn context(asked: &Asked, start_us: i64, width_s: f64) -> Vec<Course> {
    let Ok(answer) = &asked.outcome else { return Vec::new() };
    let lanes = [("waiting", "requests that wait", Unit::Count), ("kv_usage", "KV cache used", Unit::Ratio)];
    let course = |(column, name, unit): (&str, &str, Unit)| {
        let samples: Vec<_> = answer
            .rows()
            .filter_map(|row| Some(((row.time("time")? - start_us) as f64 / 1e6, row.number(column))))
            .filter(|(_, value)| value.is_some())
            .collect();
        let samples = within(&samples, width_s);
        (!samples.is_empty()).then(|| Course { name: name.to_owned(), unit, samples })
    };
    lanes.into_iter().filter_map(course).collect()
}

/// The samples of an axis: what stood when it began, what came on it, and that the last stood until its end if a later sample
/// says so.
fn within(samples: &[Sample], width_s: f64) -> Vec<Sample> {
    let first = samples.partition_point(|(at, _)| *at <= 0.0);
    let end = samples.partition_point(|(at, _)| *at <= width_s);
    let before = first.checked_sub(1).and_then(|index| samples.get(index));
    let mut kept: Vec<Sample> = before.map(|(_, value)| (0.0, *value)).into_iter().collect();
    kept.extend_from_slice(samples.get(first..end).unwrap_or_default());
    if end < samples.len()
        && let Some((_, value)) = kept.last().copied()
    {
        kept.push((width_s, value));
    }
    kept
}

/// A row of the answer, with the gap that its neighbours give it.
struct Line {
    token: Token,
    choice: i64,
    index: i64,
    count: f64,
    device_us: Option<f64>,
}

pub(super) fn view(answer: &Answer, engine: &Asked, start_us: i64, width_s: f64) -> AnyView {
    let lines = lines(answer, start_us);
    if lines.is_empty() {
        return view! {
            <p class="hint">"No token of this request was sent. Engines may sample whole requests, or send no tokens at all; see token_sampling among its attributes."</p>
        }
        .into_any();
    }
    let tokens: Vec<Token> = lines.iter().map(|line| line.token.clone()).collect();
    let width_s = tokens.iter().map(|token| token.at_s).fold(width_s, f64::max);
    let samples = serde_json::to_string(&timeline::hover(&tokens, width_s)).unwrap_or_default();
    let emitted: f64 = lines.iter().map(|line| line.count).sum();
    let title = format!(
        "{} tokens over {}",
        format::text(Some(emitted), Unit::Count),
        format::text(Some(width_s), Unit::Seconds)
    );
    let svg = timeline::tokens(&tokens, &context(engine, start_us, width_s), width_s, &title, &samples);
    view! {
        <div class="figure" inner_html=svg></div>
        {legend(&tokens)}
        {table(&lines)}
    }
    .into_any()
}

fn lines(answer: &Answer, start_us: i64) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut before: Option<(i64, i64)> = None;
    for row in answer.rows() {
        let Some(at_us) = row.time("time") else { continue };
        let choice = row.number("choice").unwrap_or(0.0) as i64;
        let since = before.filter(|(of, _)| *of == choice).map_or(start_us, |(_, at)| at);
        before = Some((choice, at_us));
        lines.push(Line {
            token: Token {
                at_s: (at_us - start_us) as f64 / 1e6,
                gap_s: (at_us >= since).then_some((at_us - since) as f64 / 1e6),
                batch: row.number("batch_size"),
                stall: timeline::stall_index(row.text("stall")),
            },
            choice,
            index: row.number("index").unwrap_or(0.0) as i64,
            count: row.number("count").unwrap_or(1.0),
            device_us: row.number("device_us"),
        });
    }
    // Several choices interleave in time; the pointer needs one order.
    lines.sort_by(|a, b| a.token.at_s.total_cmp(&b.token.at_s));
    lines
}

/// How many tokens waited for what, and the gaps in between.
fn legend(tokens: &[Token]) -> AnyView {
    let kinds = STALLS.iter().enumerate().filter_map(|(index, stall)| {
        let count = tokens.iter().filter(|token| token.stall == index).count();
        let name = if index == 0 { "no stall" } else { stall };
        let class = format!("dot stall-{stall}");
        (count > 0)
            .then(|| view! { <li><i class=class></i>{name}<b>{format::text(Some(count as f64), Unit::Count)}</b></li> })
    });
    let kinds: Vec<_> = kinds.collect();
    let mut gaps: Vec<f64> = tokens.iter().skip(1).filter_map(|token| token.gap_s).collect();
    gaps.sort_by(f64::total_cmp);
    let median = gaps.get(gaps.len() / 2).copied();
    view! {
        <ul class="legend">{kinds}
            <li>"median gap"<b>{format::text(median, Unit::Seconds)}</b></li>
            <li>"longest gap"<b>{format::text(gaps.last().copied(), Unit::Seconds)}</b></li>
        </ul>
    }
    .into_any()
}

/// The tokens in figures: all, or those with the longest gaps, in order. Written at once rather than cell by cell.
fn table(lines: &[Line]) -> AnyView {
    let mut shown: Vec<&Line> = lines.iter().collect();
    if shown.len() > ROWS {
        shown.sort_by(|a, b| b.token.gap_s.unwrap_or(0.0).total_cmp(&a.token.gap_s.unwrap_or(0.0)));
        shown.truncate(ROWS);
        shown.sort_by(|a, b| a.token.at_s.total_cmp(&b.token.at_s));
    }
    let mut rows = String::with_capacity(shown.len() * 256);
    shown.iter().for_each(|line| row(&mut rows, line));
    let caption = match lines.len() {
        count if count > ROWS => {
            format!("the {ROWS} with the longest gaps, of {count}; all of them are in the CSV of this panel's SQL")
        }
        count => format!("all {count}"),
    };
    view! {
        <details class="data">
            <summary>"Table"</summary>
            <div class="scroll"><table>
                <caption>{caption}</caption>
                <thead><tr>
                    <th class="num">"index"</th><th class="num">"choice"</th><th class="num">"at"</th><th class="num">"gap"</th>
                    <th class="num">"tokens"</th><th class="num">"batch"</th><th class="num">"device time"</th><th>"stall"</th>
                </tr></thead>
                <tbody inner_html=rows></tbody>
            </table></div>
        </details>
    }
    .into_any()
}

/// Figures and words of our own alone: nothing that telemetry spells is written here.
fn row(out: &mut String, line: &Line) {
    let stall = if line.token.stall == 0 { "" } else { STALLS[line.token.stall] };
    let at = format!("+{}", format::text(Some(line.token.at_s), Unit::Seconds));
    let figures = [
        line.choice.to_string(),
        at,
        format::text(line.token.gap_s, Unit::Seconds),
        format::text(Some(line.count), Unit::Count),
        format::text(line.token.batch, Unit::Count),
        format::text(line.device_us, Unit::Micros),
    ];
    // Writing to a string cannot fail.
    let _ = write!(out, "<tr><th scope=\"row\" class=\"num\">{}</th>", line.index);
    for figure in figures {
        let _ = write!(out, "<td class=\"num\">{}</td>", viz::escape(&figure));
    }
    let _ = write!(out, "<td>{stall}</td></tr>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_a_long_call_is_of_its_longest_gaps() {
        let line = |index: usize| Line {
            token: Token {
                at_s: index as f64,
                gap_s: Some(if index % 100 == 57 { 2.0 } else { 0.5 }),
                batch: None,
                stall: timeline::stall_index((index == 57).then_some("preempted")),
            },
            choice: 0,
            index: index as i64,
            count: 1.0,
            device_us: None,
        };
        let written = |count: usize| {
            let lines: Vec<Line> = (0..count).map(line).collect();
            Owner::new().with(|| table(&lines).to_html())
        };
        let all = written(ROWS);
        assert_eq!(all.matches("<tr><th").count(), ROWS + 1);
        assert!(all.contains(&format!("all {ROWS}")));
        let long = written(8_000);
        assert_eq!(long.matches("<tr><th").count(), ROWS + 1);
        assert!(
            long.contains("of 8000") && long.contains(">7957</th>") && long.contains("<td>preempted</td>"),
            "{long}"
        );
        assert!(long.find(">57</th>") < long.find(">157</th>"), "in order of time");
    }

    #[test]
    fn a_lane_begins_with_what_stood_before_it_and_ends_with_it() {
        let samples = [(-9.0, Some(1.0)), (-1.0, Some(2.0)), (3.0, Some(5.0)), (12.0, Some(7.0))];
        assert_eq!(within(&samples, 10.0), [(0.0, Some(2.0)), (3.0, Some(5.0)), (10.0, Some(5.0))]);
        assert_eq!(within(&samples[..3], 10.0), [(0.0, Some(2.0)), (3.0, Some(5.0))], "nobody said what came after");
        assert!(within(&[], 10.0).is_empty());
    }
}
