//! How often, over wall time and over a value on a log scale.
//!
//! A row of cells is a quarter of an octave: from 2^(level/4) to 2^((level+1)/4), the grid of an exponential histogram at scale 2.
//! The colour of a cell is its count on a log scale, so that a single slow request is still seen beside a thousand fast ones; a
//! cell without observations is not drawn.

use std::fmt::Write;

use crate::chart::{self, axis, close, open, open_plot, row};
use crate::format::{self, Unit};
use crate::hover::Levels;
use crate::path::{self, Rect};
use crate::scale::Scale;
use crate::zone::Zone;
use crate::{WIDTH, tick};

const PLOT: f64 = 180.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 22.0;
/// Shades, from few to many.
pub const SHADES: usize = 8;
/// Rows at least, so that a narrow distribution does not become a wall.
const ROWS_LEAST: i64 = 8;
/// Rows at most: fifteen decades.
const ROWS_MOST: i64 = 200;

/// What to draw.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    /// What the chart shows, for readers that do not see it.
    pub title: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Ends of the time axis, µs since the epoch.
    pub span_us: (i64, i64),
    /// In whose local time it is labelled.
    pub zone: Zone,
    /// Width of a bucket in µs.
    pub step_us: i64,
    /// The cells that hold something.
    pub cells: Vec<Cell>,
    /// A line not to pass, and its name.
    pub limit: Option<(f64, String)>,
    /// What is newer than this instant is not known yet, µs since the epoch.
    pub complete_until_us: i64,
    /// A part of it that somebody chose.
    pub chosen: Option<Chosen>,
}

/// A box over the map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chosen {
    /// Its ends in time, µs since the epoch.
    pub span_us: (i64, i64),
    /// Its lower bound, in the unit of the values.
    pub low: f64,
    /// Its upper bound.
    pub high: f64,
}

/// One cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Start of the bucket, µs since the epoch.
    pub at_us: i64,
    /// Quarter of an octave, counted from 1.
    pub level: i64,
    /// Observations.
    pub count: f64,
}

/// The smallest value of a level.
pub fn bound(level: i64) -> f64 {
    2f64.powf(level as f64 / 4.0)
}

/// Writes it down. `hover` is what the pointer reads, as JSON.
pub fn svg(map: &HeatMap, hover: &str) -> String {
    let mut out = String::with_capacity(8192 + hover.len());
    open(&mut out, &map.title, hover, TOP + PLOT + BOTTOM);
    let (low, high) = levels(map);
    let y = Scale::linear((low as f64, high as f64), (PLOT, 0.0));
    let x = Scale::linear((map.span_us.0 as f64, map.span_us.1 as f64), (0.0, WIDTH));
    let columns = tick::time(map.span_us, &map.zone, 6).into_iter();
    let columns: Vec<_> = columns.filter_map(|(at, label)| Some((x.percent(at as f64)?, label))).collect();
    let mut labels = String::new();
    for value in ticks(bound(low), bound(high)) {
        let Some(place) = y.at(value.log2() * 4.0).map(|place| place + TOP) else { continue };
        // Writing to a string cannot fail, here and below.
        let _ = write!(out, r#"<line class="grid" x1="0" x2="100%" y1="{place:.1}" y2="{place:.1}"/>"#);
        row(&mut labels, place, &format::tick(value, map.unit));
    }
    axis(&mut out, &columns, TOP + PLOT);
    open_plot(&mut out, TOP, PLOT);
    shades(&mut out, map, &x, &y);
    if let Some(chosen) = &map.chosen {
        choice(&mut out, chosen, &x, &y);
    }
    out.push_str("</svg>");
    out.push_str(&labels);
    if let Some((limit, name)) = map.limit.as_ref().filter(|(limit, _)| *limit >= bound(low) && *limit <= bound(high))
        && let Some(place) = y.at(limit.log2() * 4.0).map(|place| place + TOP)
    {
        chart::limit(&mut out, place, name);
    }
    close(&mut out, TOP, PLOT);
    out
}

/// Lowest level shown, and the one above the highest; the limit is among them unless it is far off.
fn levels(map: &HeatMap) -> (i64, i64) {
    let low = map.cells.iter().map(|cell| cell.level).min().unwrap_or(0);
    let high =
        map.cells.iter().map(|cell| cell.level.saturating_add(1)).max().unwrap_or(1).clamp(low + 1, low + ROWS_MOST);
    let limit = map.limit.as_ref().map(|(limit, _)| (limit.max(1e-9).log2() * 4.0).ceil() as i64 + 1);
    let high = limit.filter(|level| *level > high && *level <= high + 8).unwrap_or(high);
    let missing = (ROWS_LEAST - (high - low)).max(0);
    (low - missing / 2, high + missing - missing / 2)
}

/// One, two and five of each decade, as long as they are not too many.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = (high / low).log10();
    let factors: &[f64] = if decades < 1.6 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    (first..=last)
        .flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)))
        .filter(|value| *value >= low && *value <= high)
        .collect()
}

fn shades(out: &mut String, map: &HeatMap, x: &Scale, y: &Scale) {
    let most = map.cells.iter().map(|cell| cell.count).fold(1.0, f64::max);
    for shade in 0..SHADES {
        let cells = map.cells.iter().filter(|cell| shade_of(cell.count, most) == Some(shade));
        let d = path::boxes(cells.filter_map(|cell| rect(cell, map.step_us, x, y)));
        if !d.is_empty() {
            let _ = write!(out, r#"<path class="heat h{shade}" d="{d}"/>"#);
        }
    }
}

/// The outline of what is chosen; what is beyond the map's edges ends at them.
fn choice(out: &mut String, chosen: &Chosen, x: &Scale, y: &Scale) {
    let inside = |scale: &Scale, value: f64| {
        let (low, high) = scale.domain();
        scale.at(value.clamp(low.min(high), low.max(high)))
    };
    let across = (inside(x, chosen.span_us.0 as f64), inside(x, chosen.span_us.1 as f64));
    let down = (inside(y, chosen.high.log2() * 4.0), inside(y, chosen.low.log2() * 4.0));
    if let ((Some(left), Some(right)), (Some(top), Some(bottom))) = (across, down) {
        let (width, height) = ((right - left).max(0.0), (bottom - top).max(0.0));
        let _ =
            write!(out, r#"<rect class="chosen" x="{left:.1}" y="{top:.1}" width="{width:.1}" height="{height:.1}"/>"#);
    }
}

/// Where the levels lie in the picture, for a box that is drawn over it.
pub fn levels_shown(map: &HeatMap) -> Levels {
    let (low, high) = levels(map);
    Levels { low: low as f64, high: high as f64, top: TOP, height: PLOT }
}

fn shade_of(count: f64, most: f64) -> Option<usize> {
    if !(count > 0.0 && count.is_finite()) {
        return None;
    }
    let share = (1.0 + count).ln() / (1.0 + most).ln();
    Some(((share * SHADES as f64).ceil() as usize).clamp(1, SHADES) - 1)
}

fn rect(cell: &Cell, step_us: i64, x: &Scale, y: &Scale) -> Option<Rect> {
    let (left, right) = (x.at(cell.at_us as f64)?, x.at(cell.at_us.saturating_add(step_us) as f64)?);
    let (bottom, top) = (y.at(cell.level as f64)?, y.at((cell.level + 1) as f64)?);
    Some((left, right, top, bottom))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(cells: Vec<Cell>) -> HeatMap {
        HeatMap {
            title: "ttft".into(),
            unit: Unit::Seconds,
            span_us: (0, 100),
            zone: Zone::default(),
            step_us: 10,
            cells,
            limit: Some((1.0, "objective".into())),
            complete_until_us: 100,
            chosen: None,
        }
    }

    #[test]
    fn one_among_a_thousand_is_still_seen() {
        assert_eq!(shade_of(1_000.0, 1_000.0), Some(SHADES - 1));
        assert_eq!(shade_of(1.0, 1_000.0), Some(0));
        assert_eq!(shade_of(0.0, 1_000.0), None);
        assert_eq!(shade_of(f64::NAN, 1.0), None);
    }

    #[test]
    fn a_level_is_a_quarter_of_an_octave() {
        assert_eq!(bound(0), 1.0);
        assert_eq!(bound(4), 2.0);
        assert_eq!(bound(-8), 0.25);
    }

    #[test]
    fn a_shade_is_one_path_and_the_limit_has_its_line() {
        let cell = |at_us, level, count| Cell { at_us, level, count };
        let svg = svg(&sample(vec![cell(0, -8, 1.0), cell(10, -8, 1.0), cell(10, 2, 500.0)]), "{}");
        assert_eq!(svg.matches("<path class=\"heat").count(), 2, "{svg}");
        assert!(svg.contains("objective"));
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
    }

    #[test]
    fn what_is_chosen_is_outlined_within_the_map() {
        let map = sample(vec![Cell { at_us: 0, level: 0, count: 1.0 }]);
        let chosen = Chosen { span_us: (-50, 50), low: 1e-9, high: 1e9 };
        let svg = svg(&HeatMap { chosen: Some(chosen), ..map }, "{}");
        assert!(svg.contains(r#"<rect class="chosen" x="0.0" y="0.0" width="500.0" height="180.0"/>"#), "{svg}");
    }

    #[test]
    fn absurd_levels_do_not_overflow() {
        let cell = |level| Cell { at_us: 0, level, count: 1.0 };
        for cells in [vec![], vec![cell(-4_000), cell(4_000)]] {
            let svg = svg(&sample(cells), "{}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
