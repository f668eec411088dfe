//! Parts of a whole over wall time, one on top of the other.
//!
//! Only what adds up may be stacked: means, sums and costs, never percentiles. A bucket of which nothing is known stays empty.

use std::fmt::Write;

use crate::chart::{LineChart, axis, close, open, open_plot, row};
use crate::format;
use crate::path::{self, Rect};
use crate::scale::Scale;
use crate::{WIDTH, tick};

const PLOT: f64 = 148.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 22.0;
/// Share of a bucket that its column leaves free.
const AIR: f64 = 0.12;

/// Draws the series of a chart as columns, the first at the bottom; `styles` are their classes, in order. Buckets that may still
/// grow are pale. `hover` is the chart's samples as JSON, read by the pointer.
pub fn svg(chart: &LineChart, styles: &[&str], hover: &str) -> String {
    let tops: Vec<f64> = (0..chart.at_us.len()).map(|bucket| height(chart, bucket)).collect();
    let ticks = tick::linear(tops.iter().copied().fold(0.0, f64::max), 4);
    let y = Scale::linear((0.0, ticks.last().copied().unwrap_or(1.0)), (PLOT, 0.0));
    let x = Scale::linear((chart.span_us.0 as f64, chart.span_us.1 as f64), (0.0, WIDTH));
    let mut out = String::with_capacity(4096 + hover.len());
    open(&mut out, &chart.title, hover, TOP + PLOT + BOTTOM);
    let mut labels = String::new();
    for value in &ticks {
        let Some(place) = y.at(*value).map(|place| place + TOP) else { continue };
        // Writing to a string cannot fail, here and below.
        let _ = write!(out, r#"<line class="grid" x1="0" x2="100%" y1="{place:.1}" y2="{place:.1}"/>"#);
        row(&mut labels, place, &format::tick(*value, chart.unit));
    }
    let columns = tick::time(chart.span_us, &chart.zone, 6).into_iter();
    let columns: Vec<_> = columns.filter_map(|(at, label)| Some((x.percent(at as f64)?, label))).collect();
    axis(&mut out, &columns, TOP + PLOT);
    open_plot(&mut out, TOP, PLOT);
    for (series, style) in styles.iter().enumerate().take(chart.series.len()) {
        for (open, class) in [(false, ""), (true, " open")] {
            let d = path::boxes(rects(chart, series, open, &x, &y));
            if !d.is_empty() {
                let _ = write!(out, r#"<path class="piece {style}{class}" d="{d}"/>"#);
            }
        }
    }
    out.push_str("</svg>");
    out.push_str(&labels);
    close(&mut out, TOP, PLOT);
    out
}

fn value(chart: &LineChart, series: usize, bucket: usize) -> f64 {
    let found = chart.series.get(series).and_then(|line| line.values.get(bucket).copied().flatten());
    found.filter(|value| value.is_finite()).unwrap_or(0.0).max(0.0)
}

fn height(chart: &LineChart, bucket: usize) -> f64 {
    (0..chart.series.len()).map(|series| value(chart, series, bucket)).sum()
}

/// The boxes of one series, either of the finished buckets or of those that may still grow.
fn rects<'a>(
    chart: &'a LineChart,
    series: usize,
    open: bool,
    x: &'a Scale,
    y: &'a Scale,
) -> impl Iterator<Item = Rect> + 'a {
    chart.at_us.iter().enumerate().filter_map(move |(bucket, at)| {
        let end = at.saturating_add(chart.step_us);
        if (end > chart.complete_until_us) != open {
            return None;
        }
        let below: f64 = (0..series).map(|lower| value(chart, lower, bucket)).sum();
        let above = below + value(chart, series, bucket);
        let (left, right) = (x.at(*at as f64)?, x.at(end as f64)?);
        let air = (right - left) * AIR / 2.0;
        Some((left + air, right - air, y.at(above)?, y.at(below)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Line;
    use crate::format::Unit;
    use crate::zone::Zone;

    fn sample() -> LineChart {
        let line = |name: &str, values: Vec<Option<f64>>| Line { name: name.into(), slot: 0, values };
        LineChart {
            title: "split".into(),
            unit: Unit::Seconds,
            span_us: (0, 40),
            zone: Zone::default(),
            step_us: 10,
            at_us: vec![0, 10, 30],
            series: vec![
                line("queue", vec![Some(1.0), None, Some(f64::NAN)]),
                line("prefill", vec![Some(3.0), None, Some(2.0)]),
            ],
            limit: None,
            complete_until_us: 25,
        }
    }

    #[test]
    fn a_part_stands_on_the_one_before() {
        let chart = sample();
        let (x, y) = (Scale::linear((0.0, 40.0), (0.0, 40.0)), Scale::linear((0.0, 4.0), (4.0, 0.0)));
        let first: Vec<Rect> = rects(&chart, 1, false, &x, &y).collect();
        assert_eq!((first[0].2, first[0].3), (0.0, 3.0), "from one to four seconds");
        assert_eq!(rects(&chart, 1, true, &x, &y).count(), 1, "the last bucket may still grow");
    }

    #[test]
    fn unknown_buckets_draw_nothing() {
        let svg = svg(&sample(), &["queue", "prefill"], "{}");
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
        assert_eq!(svg.matches("class=\"piece queue\"").count(), 1);
        assert!(svg.contains("class=\"piece prefill open\""));
        assert!(!svg.contains("NaN"), "{svg}");
    }
}
