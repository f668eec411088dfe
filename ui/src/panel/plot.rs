//! Charts with their legends and tables, and the series that answers hold.

use leptos::prelude::*;
use viz::chart::{self, Line, LineChart};
use viz::format::{self, Unit};
use viz::heat::{self, HeatMap};
use viz::hover::{self, Hover};
use viz::{colour, stack};

use crate::ask::{Answer, Row};
use crate::panel::picture::{self, Key, Picture};
use crate::zone;

/// Slots of the style sheet for percentiles: one hue, three weights.
pub(crate) const P50: usize = 8;
/// See [`P50`].
pub(crate) const P90: usize = 9;
/// See [`P50`].
pub(crate) const P99: usize = 10;

/// What the charts of a page share: their axis, and until when it is complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    pub(crate) span_us: (i64, i64),
    pub(crate) step_s: i64,
}

impl Axis {
    /// A chart of series over this axis. Buckets newer than the answer's data may still grow.
    pub(crate) fn chart(self, title: &str, unit: Unit, answer: &Answer, series: (Vec<i64>, Vec<Line>)) -> LineChart {
        LineChart {
            title: title.to_owned(),
            unit,
            span_us: self.span_us,
            zone: zone::over(self.span_us),
            step_us: self.step_s * 1_000_000,
            at_us: series.0,
            series: series.1,
            limit: None,
            complete_until_us: answer.raw().freshness.map_or(self.span_us.1, |fresh| fresh.newest_time_us),
        }
    }
}

/// A chart with its legend and its table.
pub(crate) fn line_chart(chart: &LineChart) -> AnyView {
    if chart.series.is_empty() || chart.at_us.is_empty() {
        return view! { <p class="hint">"No buckets in this range."</p> }.into_any();
    }
    // A number that JSON cannot carry is never in a hover: values are finite.
    let samples = serde_json::to_string(&chart::hover(chart)).unwrap_or_default();
    let svg = chart::svg(chart, &samples);
    let kept = pictured(chart, &svg, |_, line| format!("s{}", line.slot));
    let legend = chart.series.iter().map(|line| {
        let swatch = format!(r#"<svg class="swatch" width="14" height="8" aria-hidden="true"><line class="line s{}" x1="0" x2="14" y1="4" y2="4"/></svg>"#, line.slot);
        view! { <li><span inner_html=swatch></span>{line.name.clone()}<b>{format::text(last(chart, line), chart.unit)}</b></li> }
    });
    view! {
        <div class="figure" inner_html=svg></div>
        <ul class="legend">{legend.collect_view()}{picture::kept(kept)}</ul>
        {table_of(chart)}
    }
    .into_any()
}

/// The chart by itself; each series has its class.
fn pictured(chart: &LineChart, svg: &str, class: impl Fn(usize, &Line) -> String) -> Picture {
    let key = |(index, line): (usize, &Line)| Key {
        class: class(index, line),
        name: line.name.clone(),
        value: format::text(last(chart, line), chart.unit),
    };
    Picture {
        title: chart.title.clone(),
        step_us: chart.step_us,
        span_us: chart.span_us,
        as_of_us: chart.complete_until_us,
        svg: svg.to_owned(),
        legend: chart.series.iter().enumerate().map(key).collect(),
    }
}

/// Columns of parts that add up, one style of the sheet per series.
pub(crate) fn stack_chart(chart: &LineChart, styles: &[&'static str]) -> AnyView {
    if chart.at_us.is_empty() {
        return view! { <p class="hint">"No buckets in this range."</p> }.into_any();
    }
    let samples = serde_json::to_string(&chart::hover(chart)).unwrap_or_default();
    let svg = stack::svg(chart, styles, &samples);
    let kept = pictured(chart, &svg, |index, _| format!("piece {}", styles.get(index).copied().unwrap_or_default()));
    let legend = chart.series.iter().zip(styles).map(|(line, style)| {
        let class = format!("dot {style}");
        view! { <li><i class=class></i>{line.name.clone()}<b>{format::text(last(chart, line), chart.unit)}</b></li> }
    });
    view! {
        <div class="figure" inner_html=svg></div>
        <ul class="legend">{legend.collect_view()}{picture::kept(kept)}</ul>
        {table_of(chart)}
    }
    .into_any()
}

/// A heat map; the pointer reads the counts of a bucket's cells.
pub(crate) fn heat_map(map: &HeatMap) -> AnyView {
    if map.cells.is_empty() {
        return view! { <p class="hint">"Nothing was measured in this range."</p> }.into_any();
    }
    let samples = serde_json::to_string(&readings(map)).unwrap_or_default();
    let svg = heat::svg(map, &samples);
    let most = map.cells.iter().map(|cell| cell.count).fold(0.0, f64::max);
    let kept = Picture {
        title: map.title.clone(),
        step_us: map.step_us,
        span_us: map.span_us,
        as_of_us: map.complete_until_us,
        svg: svg.clone(),
        legend: vec![Key {
            class: "h7".to_owned(),
            name: "most in a cell; shades on a log scale".to_owned(),
            value: format::text(Some(most), Unit::Count),
        }],
    };
    let scale = (0..heat::SHADES).map(|shade| {
        let class = format!("dot heat h{shade}");
        view! { <i class=class></i> }
    });
    view! {
        <div class="figure" inner_html=svg></div>
        <ul class="legend"><li><span class="shades">{scale.collect_view()}</span>"1 to "<b>{format::text(Some(most), Unit::Count)}</b>"a cell, log scale"</li>{picture::kept(kept)}</ul>
    }
    .into_any()
}

/// What the pointer reads off a heat map: how many there were in a bucket, and between what they lay.
fn readings(map: &HeatMap) -> Hover {
    let mut at_us: Vec<i64> = map.cells.iter().map(|cell| cell.at_us).collect();
    at_us.sort_unstable();
    at_us.dedup();
    let of = |at: &i64| map.cells.iter().filter(|cell| cell.at_us == *at).collect::<Vec<_>>();
    let each = |value: fn(&[&heat::Cell]) -> Option<f64>| at_us.iter().map(|at| value(&of(at))).collect::<Vec<_>>();
    let series = |name: &str, unit, values| hover::HoverSeries { name: name.to_owned(), slot: P99, unit, values };
    Hover {
        domain: (map.span_us.0 as f64, map.span_us.1 as f64),
        x: at_us.iter().map(|at| *at as f64 + map.step_us as f64 / 2.0).collect(),
        wall: true,
        zone: map.zone.within(map.span_us.0, map.span_us.1),
        series: vec![
            series("count", Unit::Count, each(|cells| Some(cells.iter().map(|cell| cell.count).sum()))),
            series("at most", map.unit, each(|cells| cells.iter().map(|cell| cell.level + 1).max().map(bound))),
            series("at least", map.unit, each(|cells| cells.iter().map(|cell| cell.level).min().map(bound))),
        ],
        levels: Some(heat::levels_shown(map)),
        words: Vec::new(),
        word_of: Vec::new(),
    }
}

fn bound(level: i64) -> f64 {
    chart::rounded(heat::bound(level))
}

/// The newest value that does not grow any more: what a bucket has when it has just begun says little.
fn last(chart: &LineChart, line: &Line) -> Option<f64> {
    let newest = |values: &[Option<f64>]| values.iter().rev().flatten().next().copied();
    let over = chart.at_us.partition_point(|at| at.saturating_add(chart.step_us) <= chart.complete_until_us);
    newest(line.values.get(..over).unwrap_or_default()).or_else(|| newest(&line.values))
}

/// The same numbers for those who do not see lines. Only the newest buckets, newest first.
fn table_of(chart: &LineChart) -> AnyView {
    const ROWS: usize = 40;
    let heads = chart.series.iter().map(|line| view! { <th class="num">{line.name.clone()}</th> });
    let rows = chart.at_us.iter().enumerate().rev().take(ROWS).map(|(index, at)| {
        let cells = chart.series.iter().map(|line| {
            let value = line.values.get(index).copied().flatten();
            view! { <td class="num">{format::text(value, chart.unit)}</td> }
        });
        view! { <tr><th scope="row">{zone::clock(*at)}</th>{cells.collect_view()}</tr> }
    });
    let caption = format!("Buckets of {} s, newest first, at most {ROWS}", chart.step_us / 1_000_000);
    view! {
        <details class="data">
            <summary>"Table"</summary>
            <div class="scroll"><table>
                <caption>{caption}</caption>
                <thead><tr><th>"bucket"</th>{heads.collect_view()}</tr></thead>
                <tbody>{rows.collect_view()}</tbody>
            </table></div>
        </details>
    }
    .into_any()
}

/// The buckets of an answer, in order.
fn buckets(answer: &Answer) -> Vec<i64> {
    let mut at_us: Vec<i64> = answer.rows().filter_map(|row| row.time("bucket")).collect();
    at_us.sort_unstable();
    at_us.dedup();
    at_us
}

/// One series per value of the column `key`, with the numbers of `column`.
pub(crate) fn series_by(answer: &Answer, key: &str, column: &str) -> (Vec<i64>, Vec<Line>) {
    let at_us = buckets(answer);
    let name_of = |row: &Row<'_>| row.text(key).unwrap_or(format::UNKNOWN).to_owned();
    let mut names: Vec<String> = answer.rows().map(|row| name_of(&row)).collect();
    names.sort_unstable();
    names.dedup();
    let slots = colour::slots(&names);
    let mut lines: Vec<Line> =
        names.into_iter().zip(slots).map(|(name, slot)| Line { name, slot, values: vec![None; at_us.len()] }).collect();
    for row in answer.rows() {
        let place = row.time("bucket").and_then(|at| at_us.binary_search(&at).ok());
        let name = name_of(&row);
        if let (Some(place), Some(line)) = (place, lines.iter_mut().find(|line| line.name == name))
            && let Some(value) = line.values.get_mut(place)
        {
            *value = row.number(column);
        }
    }
    (at_us, lines)
}

/// One series per column: its name in the answer, in the legend, and its colour. The answer has one row a bucket.
pub(crate) fn series_of(answer: &Answer, columns: &[(&str, &str, usize)]) -> (Vec<i64>, Vec<Line>) {
    let at_us = buckets(answer);
    let line = |(column, name, slot): &(&str, &str, usize)| {
        let mut values = vec![None; at_us.len()];
        for row in answer.rows() {
            let place = row.time("bucket").and_then(|at| at_us.binary_search(&at).ok());
            if let Some(value) = place.and_then(|place| values.get_mut(place)) {
                *value = row.number(column);
            }
        }
        Line { name: (*name).to_owned(), slot: *slot, values }
    };
    let lines = columns.iter().map(line).collect();
    (at_us, lines)
}
