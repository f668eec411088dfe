//! Lines over wall time.
//!
//! [`frame`] takes every decision (scale, ticks, what is drawn and what is only hinted at), and
//! [`svg`] writes it down. A missing value breaks the line; a bucket that may still grow is dotted.

use std::fmt::Write;

use crate::format::{self, Unit};
use crate::hover::{Hover, HoverSeries};
use crate::markup::escape;
use crate::reduce::{self, Sample};
use crate::scale::Scale;
use crate::zone::Zone;
use crate::{WIDTH, path, tick};

/// Height of the plot, in px.
const PLOT: f64 = 148.0;
/// Room above the plot for the topmost label, in px.
const TOP: f64 = 16.0;
/// Room below for the time axis, in px.
const BOTTOM: f64 = 22.0;

/// What to draw.
#[derive(Clone, Debug, PartialEq)]
pub struct LineChart {
    /// What the chart shows, for readers that do not see it.
    pub title: String,
    /// Unit of all values.
    pub unit: Unit,
    /// Ends of the time axis, µs since the epoch.
    pub span_us: (i64, i64),
    /// In whose local time it is labelled.
    pub zone: Zone,
    /// Width of a bucket in µs.
    pub step_us: i64,
    /// Start of each bucket, ascending.
    pub at_us: Vec<i64>,
    /// One value per bucket and series.
    pub series: Vec<Line>,
    /// A line not to pass, and its name.
    pub limit: Option<(f64, String)>,
    /// Buckets that end after this instant may still grow.
    pub complete_until_us: i64,
}

/// One series.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Name in the legend.
    pub name: String,
    /// Colour slot.
    pub slot: usize,
    /// One value per bucket; none where nothing is known.
    pub values: Vec<Option<f64>>,
}

/// Every decision about a chart, ready to be written down.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Horizontal grid: height in px from the top of the plot, label.
    pub rows: Vec<(f64, String)>,
    /// Time ticks: percent of the width, label.
    pub columns: Vec<(f64, String)>,
    /// Finished part and unfinished part of each line, with its slot and whether it is dashed.
    pub lines: Vec<Drawn>,
    /// The limit: height in px, name.
    pub limit: Option<(f64, String)>,
}

/// One drawn line.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// Colour slot.
    pub slot: usize,
    /// Whether the slot is already worn by another line.
    pub dashed: bool,
    /// Path of the finished buckets.
    pub done: String,
    /// Path of the buckets that may still grow.
    pub open: String,
}

/// Takes the decisions.
pub fn frame(chart: &LineChart) -> Frame {
    let highest = chart.series.iter().flat_map(|line| &line.values).flatten().copied().fold(0.0, f64::max);
    let shown_limit = chart.limit.as_ref().filter(|(limit, _)| *limit <= highest * 2.5);
    let top = shown_limit.map_or(highest, |(limit, _)| highest.max(*limit));
    let ticks = tick::linear(top, 4);
    let y = Scale::linear((0.0, ticks.last().copied().unwrap_or(1.0)), (PLOT, 0.0));
    let (from, to) = (chart.span_us.0 as f64, chart.span_us.1 as f64);
    let x = Scale::linear((from, to), (0.0, WIDTH));
    let rows = ticks.iter().filter_map(|tick| Some((y.at(*tick)?, format::tick(*tick, chart.unit))));
    let columns = tick::time(chart.span_us, &chart.zone, 6);
    let columns = columns.into_iter().filter_map(|(at, label)| Some((x.percent(at as f64)?, label)));
    let mut worn = Vec::new();
    let lines = chart.series.iter().map(|line| {
        let dashed = worn.contains(&line.slot);
        worn.push(line.slot);
        drawn(chart, line, dashed, &x, &y)
    });
    Frame {
        lines: lines.collect(),
        rows: rows.collect(),
        columns: columns.collect(),
        limit: shown_limit.and_then(|(limit, name)| Some((y.at(*limit)?, name.clone()))),
    }
}

fn drawn(chart: &LineChart, line: &Line, dashed: bool, x: &Scale, y: &Scale) -> Drawn {
    let samples = samples(chart, line);
    let finished = chart.at_us.partition_point(|at| at.saturating_add(chart.step_us) <= chart.complete_until_us);
    let (done, _) = samples.split_at(finished.min(samples.len()));
    // The open part starts at the last finished sample, so that the two lines meet.
    let open = samples.get(finished.saturating_sub(1)..).filter(|_| finished < samples.len()).unwrap_or_default();
    let draw = |part: &[Sample]| path::line(&reduce::extremes(part, x.domain(), WIDTH as usize), x, y);
    Drawn { slot: line.slot, dashed, done: draw(done), open: draw(open) }
}

/// A bucket stands in its middle; buckets that are absent altogether break the line.
fn samples(chart: &LineChart, line: &Line) -> Vec<Sample> {
    let half = chart.step_us as f64 / 2.0;
    let mut samples = Vec::with_capacity(chart.at_us.len());
    let mut before: Option<i64> = None;
    for (at, value) in chart.at_us.iter().zip(&line.values) {
        if before.is_some_and(|before| at.saturating_sub(before) > chart.step_us) {
            samples.push(((*at - chart.step_us) as f64 + half, None));
        }
        samples.push((*at as f64 + half, *value));
        before = Some(*at);
    }
    samples
}

/// The samples for the pointer.
pub fn hover(chart: &LineChart) -> Hover {
    let half = chart.step_us as f64 / 2.0;
    let series = chart.series.iter().map(|line| HoverSeries {
        name: line.name.clone(),
        slot: line.slot,
        unit: chart.unit,
        values: line.values.iter().map(|value| value.map(rounded)).collect(),
    });
    Hover {
        domain: (chart.span_us.0 as f64, chart.span_us.1 as f64),
        x: chart.at_us.iter().map(|at| *at as f64 + half).collect(),
        wall: true,
        zone: chart.zone.within(chart.span_us.0, chart.span_us.1),
        series: series.collect(),
        levels: None,
        words: Vec::new(),
        word_of: Vec::new(),
    }
}

/// Five significant digits: more than a tooltip shows, fewer bytes than a double prints.
pub fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powi(4 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

/// Writes a chart down. `hover` is its samples as JSON, read by the pointer.
pub fn svg(chart: &LineChart, hover: &str) -> String {
    let frame = frame(chart);
    let height = TOP + PLOT + BOTTOM;
    let mut out = String::with_capacity(4096 + hover.len());
    open(&mut out, &chart.title, hover, height);
    // Labels come after the lines, so that a line never strikes one through.
    let mut labels = String::new();
    for (y, label) in &frame.rows {
        let y = y + TOP;
        let _ = write!(out, r#"<line class="grid" x1="0" x2="100%" y1="{y:.1}" y2="{y:.1}"/>"#);
        row(&mut labels, y, label);
    }
    axis(&mut out, &frame.columns, TOP + PLOT);
    open_plot(&mut out, TOP, PLOT);
    for line in &frame.lines {
        let dash = if line.dashed { " dashed" } else { "" };
        for (d, open) in [(&line.done, ""), (&line.open, " open")] {
            if !d.is_empty() {
                let _ = write!(out, r#"<path class="line s{}{dash}{open}" d="{d}"/>"#, line.slot);
            }
        }
    }
    out.push_str("</svg>");
    out.push_str(&labels);
    if let Some((y, name)) = &frame.limit {
        let y = y + TOP;
        limit(&mut out, y, name);
    }
    close(&mut out, TOP, PLOT);
    out
}

/// Opens a chart over wall time. `hover` is its samples as JSON, read by the pointer.
pub(crate) fn open(out: &mut String, title: &str, hover: &str, height: f64) {
    // Writing to a string cannot fail, here and elsewhere.
    let _ = write!(
        out,
        r#"<svg class="chart" width="100%" height="{height}" role="img" tabindex="0" aria-label="{}" data-hover="{}">"#,
        escape(title),
        escape(hover),
    );
}

/// The label of a line of the grid. It stands left of the chart, where the style sheet and the image leave room, so that it lies over no data.
pub(crate) fn row(out: &mut String, y: f64, label: &str) {
    let _ = write!(out, r#"<text class="tick end" x="-8" y="{:.1}">{}</text>"#, y + 4.0, escape(label));
}

/// A line not to pass, with its name above it.
pub(crate) fn limit(out: &mut String, y: f64, name: &str) {
    let _ = write!(out, r#"<line class="limit" x1="0" x2="100%" y1="{y:.1}" y2="{y:.1}"/>"#);
    let _ = write!(out, r#"<text class="tick limit" x="4" y="{:.1}">{}</text>"#, y - 4.0, escape(name));
}

/// The line and the box that the pointer moves, and the end of the chart.
pub(crate) fn close(out: &mut String, top: f64, height: f64) {
    let _ = write!(out, r#"<rect class="brush" x="0" y="{top}" width="0" height="{height}"/>"#);
    let _ = write!(out, r#"<line class="cross" x1="0" x2="0" y1="{top}" y2="{}"/></svg>"#, top + height);
}

/// Labels under a plot. The outermost ones turn inward, so that none is cut off.
pub(crate) fn axis(out: &mut String, columns: &[(f64, String)], bottom: f64) {
    for (percent, label) in columns {
        let anchor = if *percent < 3.0 {
            "start"
        } else if *percent > 97.0 {
            "end"
        } else {
            "mid"
        };
        let _ = write!(
            out,
            r#"<line class="notch" x1="{percent:.2}%" x2="{percent:.2}%" y1="{bottom}" y2="{}"/>"#,
            bottom + 4.0
        );
        let _ = write!(
            out,
            r#"<text class="tick {anchor}" x="{percent:.2}%" y="{}">{}</text>"#,
            bottom + 16.0,
            escape(label)
        );
    }
}

/// Opens the box in which paths are stretched to the width of the panel.
pub(crate) fn open_plot(out: &mut String, top: f64, height: f64) {
    let _ = write!(
        out,
        r#"<svg class="plot" x="0" y="{top}" width="100%" height="{height}" viewBox="0 0 {WIDTH} {height}" preserveAspectRatio="none">"#
    );
}

/// A line without axes for the corner of a tile. Says nothing on its own, so it is hidden from
/// readers that do not see it.
pub fn spark(values: &[Option<f64>]) -> String {
    const HEIGHT: f64 = 28.0;
    let known = values.iter().flatten();
    let highest = known.clone().copied().fold(f64::NEG_INFINITY, f64::max);
    if !highest.is_finite() {
        return String::new();
    }
    let y = Scale::linear((0.0, highest.max(f64::MIN_POSITIVE)), (HEIGHT - 2.0, 2.0));
    let x = Scale::linear((0.0, values.len().saturating_sub(1).max(1) as f64), (0.0, WIDTH));
    let samples: Vec<Sample> = values.iter().enumerate().map(|(index, value)| (index as f64, *value)).collect();
    let d = path::line(&samples, &x, &y);
    format!(
        r#"<svg class="spark" width="100%" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" aria-hidden="true"><path class="line" d="{d}"/></svg>"#
    )
}

#[cfg(test)]
mod tests;
