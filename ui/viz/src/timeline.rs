//! One request from the inside: its phases, and each of its tokens.
//!
//! A token is an upright stroke where it left the engine; its height is the gap to the token
//! before on a log scale, its colour the reason of the wait. All strokes of a colour are one path,
//! so thousands of tokens stay cheap to draw.

use std::fmt::Write;

use crate::chart::{axis, open_plot, rounded, row};
use crate::format::{self, Unit};
use crate::hover::{Hover, HoverSeries};
use crate::markup::escape;
use crate::reduce::Sample;
use crate::scale::Scale;
use crate::zone::Zone;
use crate::{WIDTH, path, tick};

/// Height of the strokes' lane, in px.
const GAPS: f64 = 132.0;
/// Height of the batch lane, in px.
const BATCH: f64 = 44.0;
const TOP: f64 = 16.0;
const BETWEEN: f64 = 22.0;
const BOTTOM: f64 = 22.0;

/// A piece of a lane: what, from when to when (seconds since the start), in which style.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// Name, shown when there is room and always read out.
    pub name: String,
    /// Start and end, seconds since the start of the axis.
    pub span_s: (f64, f64),
    /// Class of the bar in the style sheet.
    pub style: &'static str,
}

/// A row of pieces over a common axis of `width_s` seconds.
pub fn lane(pieces: &[Piece], width_s: f64) -> String {
    const HEIGHT: f64 = 20.0;
    let x = Scale::linear((0.0, width_s.max(1e-9)), (0.0, 100.0));
    let mut out = format!(r#"<svg class="lane" width="100%" height="{HEIGHT}" role="img" aria-label=""#);
    for (index, piece) in pieces.iter().enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        // Writing to a string cannot fail, here and below.
        let _ = write!(out, "{comma}{}", escape(&label(piece)));
    }
    out.push_str("\">");
    for piece in pieces {
        let (Some(from), Some(to)) = (x.at(piece.span_s.0), x.at(piece.span_s.1)) else { continue };
        let wide = (to - from).max(0.15);
        let _ = write!(
            out,
            r#"<rect class="piece {}" x="{from:.2}%" y="2" width="{wide:.2}%" height="{}" rx="2"><title>{}</title></rect>"#,
            piece.style,
            HEIGHT - 4.0,
            escape(&label(piece)),
        );
    }
    out.push_str("</svg>");
    out
}

fn label(piece: &Piece) -> String {
    format!("{} {}", piece.name, format::text(Some((piece.span_s.1 - piece.span_s.0).max(0.0)), Unit::Seconds))
}

/// One emitted token.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// Seconds since the request arrived.
    pub at_s: f64,
    /// Seconds since the token before it, or since arrival for the first.
    pub gap_s: Option<f64>,
    /// Sequences in the step that made it.
    pub batch: Option<f64>,
    /// Why it took that long, as an index of [`STALLS`].
    pub stall: usize,
}

/// Reasons a token waits for, in the order of their colours: none of note, another request's
/// prefill, preemption, the host, the network, and any other word.
pub const STALLS: [&str; 6] = ["decode", "prefill", "preempted", "host", "network", "other"];

/// The index of a reason as it is spelled on the wire; no reason is decode.
pub fn stall_index(word: Option<&str>) -> usize {
    match word {
        None | Some("") => 0,
        Some(word) => STALLS.iter().position(|stall| *stall == word).unwrap_or(STALLS.len() - 1),
    }
}

/// How something else went meanwhile, as a lane below the tokens: a value stands until the next sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    /// What it is.
    pub name: String,
    /// Unit of its values.
    pub unit: Unit,
    /// Seconds since the request arrived, and the value.
    pub samples: Vec<Sample>,
}

/// The token timeline over an axis of `width_s` seconds, with lanes of `context` on the same axis. `hover` is its samples as JSON.
pub fn tokens(tokens: &[Token], context: &[Course], width_s: f64, title: &str, hover: &str) -> String {
    let x = Scale::linear((0.0, width_s.max(1e-9)), (0.0, WIDTH));
    let lanes = 1.0 + context.len() as f64;
    let bottom = TOP + GAPS + lanes * (BETWEEN + BATCH);
    let height = bottom + BOTTOM;
    let mut out = String::with_capacity(8192 + hover.len());
    let _ = write!(
        out,
        r#"<svg class="chart tokens" width="100%" height="{height}" role="img" tabindex="0" aria-label="{}" data-hover="{}">"#,
        escape(title),
        escape(hover),
    );
    gaps(&mut out, tokens, &x);
    for (index, course) in std::iter::once(&batches(tokens)).chain(context).enumerate() {
        let top = TOP + GAPS + BETWEEN + index as f64 * (BETWEEN + BATCH);
        course_lane(&mut out, course, top, &x);
    }
    let ticks = tick::offsets(width_s, 5).into_iter();
    let columns: Vec<_> = ticks.filter_map(|at| Some((x.percent(at)?, format::tick(at, Unit::Seconds)))).collect();
    axis(&mut out, &columns, bottom);
    let _ = write!(out, r#"<line class="cross" x1="0" x2="0" y1="{TOP}" y2="{bottom}"/></svg>"#);
    out
}

fn gaps(out: &mut String, tokens: &[Token], x: &Scale) {
    let known = || tokens.iter().filter_map(|token| token.gap_s).filter(|gap| *gap > 0.0);
    let least = known().fold(f64::INFINITY, f64::min).max(1e-5);
    let most = known().fold(least.min(1.0), f64::max);
    let ticks = tick::log(least, most.max(least));
    let ends = (ticks.first().copied().unwrap_or(1e-3), ticks.last().copied().unwrap_or(1.0));
    // The smallest gap must still stand above the base.
    let y = Scale::log((ends.0 / 2.0, ends.1), (GAPS, 0.0));
    for gap in &ticks {
        let Some(place) = y.at(*gap).map(|place| place + TOP) else { continue };
        let _ = write!(out, r#"<line class="grid" x1="0" x2="100%" y1="{place:.1}" y2="{place:.1}"/>"#);
        row(out, place, &format::tick(*gap, Unit::Seconds));
    }
    let _ = write!(out, r#"<line class="base" x1="0" x2="100%" y1="{0}" y2="{0}"/>"#, TOP + GAPS);
    open_plot(out, TOP, GAPS);
    for (stall, word) in STALLS.iter().enumerate() {
        let of_stall = tokens.iter().filter(|token| token.stall == stall);
        let samples: Vec<Sample> = of_stall.map(|token| (token.at_s, token.gap_s.map(|gap| gap.max(1e-5)))).collect();
        let d = path::strokes(&tallest(&samples, x), GAPS, x, &y);
        if !d.is_empty() {
            let _ = write!(out, r#"<path class="stroke stall-{word}" d="{d}"/>"#);
        }
    }
    out.push_str("</svg>");
}

/// Of the strokes that fall on the same column only the tallest can be seen.
fn tallest(samples: &[Sample], x: &Scale) -> Vec<Sample> {
    let mut kept: Vec<(i64, Sample)> = Vec::new();
    for sample in samples {
        let Some(column) = x.at(sample.0).map(|place| place.round() as i64) else { continue };
        match kept.last_mut() {
            Some((last, held)) if *last == column => {
                if sample.1.unwrap_or(0.0) > held.1.unwrap_or(0.0) {
                    *held = *sample;
                }
            }
            _ => kept.push((column, *sample)),
        }
    }
    kept.into_iter().map(|(_, sample)| sample).collect()
}

/// The batch that each token was made in.
fn batches(tokens: &[Token]) -> Course {
    let mut samples: Vec<Sample> = Vec::new();
    for token in tokens {
        // A batch that did not change needs no point of its own.
        if samples.last().map(|(_, batch)| *batch) != Some(token.batch) {
            samples.push((token.at_s, token.batch));
        }
    }
    if let (Some(last), Some((at, _))) = (tokens.last(), samples.last().copied())
        && last.at_s > at
    {
        samples.push((last.at_s, last.batch));
    }
    Course { name: "batch".to_owned(), unit: Unit::Count, samples }
}

fn course_lane(out: &mut String, course: &Course, top: f64, x: &Scale) {
    let known = course.samples.iter().any(|(_, value)| value.is_some());
    let most = course.samples.iter().filter_map(|(_, value)| *value).fold(0.0, f64::max);
    let _ = write!(
        out,
        r#"<text class="tick" x="0" y="{:.1}">{}, up to {}</text>"#,
        top - 5.0,
        escape(&course.name),
        format::text(known.then_some(most), course.unit)
    );
    let _ = write!(out, r#"<line class="base" x1="0" x2="100%" y1="{0}" y2="{0}"/>"#, top + BATCH);
    let y = Scale::linear((0.0, if most > 0.0 { most } else { 1.0 }), (BATCH, 2.0));
    open_plot(out, top, BATCH);
    let _ = write!(out, r#"<path class="line batch" d="{}"/></svg>"#, path::steps(&course.samples, x, &y));
}

/// What the pointer reads: each token, or where several share a column of the drawing the one with the longest gap, which is the
/// stroke that is seen there, and how many there are.
pub fn hover(tokens: &[Token], width_s: f64) -> Hover {
    let columns = columns(tokens, width_s);
    let shares = columns.len() < tokens.len();
    let series = |name: &str, slot, unit, value: &dyn Fn(&Column<'_>) -> Option<f64>| HoverSeries {
        name: name.to_owned(),
        slot,
        unit,
        values: columns.iter().map(|column| value(column).map(rounded)).collect(),
    };
    let gap = if shares { "longest gap" } else { "gap" };
    let mut all = vec![
        series(gap, 0, Unit::Seconds, &|column| column.token.gap_s),
        series("batch", 1, Unit::Count, &|column| column.token.batch),
    ];
    if shares {
        all.push(series("tokens here", 2, Unit::Count, &|column| Some(column.tokens as f64)));
    }
    Hover {
        domain: (0.0, width_s),
        x: columns.iter().map(|column| (column.token.at_s * 1e6).round() / 1e6).collect(),
        wall: false,
        zone: Zone::default(),
        series: all,
        levels: None,
        words: STALLS
            .iter()
            .map(|stall| if *stall == "decode" { String::new() } else { format!("{stall} stall") })
            .collect(),
        word_of: columns.iter().map(|column| column.token.stall).collect(),
    }
}

/// A stroke as it is seen.
struct Column<'a> {
    token: &'a Token,
    /// How many tokens it stands for.
    tokens: usize,
}

/// One column a token while there is room for each, else one for each unit of the drawing's width.
fn columns(tokens: &[Token], width_s: f64) -> Vec<Column<'_>> {
    if tokens.len() as f64 <= WIDTH {
        return tokens.iter().map(|token| Column { token, tokens: 1 }).collect();
    }
    let x = Scale::linear((0.0, width_s.max(1e-9)), (0.0, WIDTH));
    let mut columns: Vec<(i64, Column<'_>)> = Vec::new();
    for token in tokens {
        let Some(place) = x.at(token.at_s).map(|place| place.round() as i64) else { continue };
        match columns.last_mut() {
            Some((last, column)) if *last == place => {
                column.tokens += 1;
                if token.gap_s > column.token.gap_s {
                    column.token = token;
                }
            }
            _ => columns.push((place, Column { token, tokens: 1 })),
        }
    }
    columns.into_iter().map(|(_, column)| column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn many(count: usize) -> Vec<Token> {
        let token = |index: usize| Token {
            at_s: 0.2 + index as f64 * 0.02,
            gap_s: Some(if index == 70 { 0.9 } else { 0.02 }),
            batch: Some(8.0),
            stall: usize::from(index == 70),
        };
        (0..count).map(token).collect()
    }

    #[test]
    fn each_stall_is_one_path() {
        let tokens_drawn = many(2_048);
        let svg = tokens(&tokens_drawn, &[], 42.0, "tokens", "{}");
        assert_eq!(svg.matches("<path class=\"stroke").count(), 2);
        assert!(svg.contains("stall-prefill"));
        assert!(svg.len() < 40_000, "{}", svg.len());
    }

    #[test]
    fn the_pointer_reads_what_is_seen_and_says_how_many_share_it() {
        let read = |count: usize| hover(&many(count), 0.2 + count as f64 * 0.02);
        let few = read(900);
        assert_eq!((few.x.len(), few.series.len(), few.series[0].name.as_str()), (900, 2, "gap"));
        let many = read(8_000);
        assert!(many.x.len() <= WIDTH as usize + 1 && many.x.is_sorted(), "{}", many.x.len());
        let here = many.series.iter().find(|series| series.name == "tokens here").unwrap();
        assert_eq!(here.values.iter().flatten().sum::<f64>(), 8_000.0, "none is left out");
        let stall = many.word_of.iter().position(|word| *word == 1).unwrap();
        assert_eq!(many.series[0].values[stall], Some(0.9), "the long gap is the one that is read");
    }

    #[test]
    fn the_longest_gap_of_a_column_is_the_one_drawn() {
        let x = Scale::linear((0.0, 1000.0), (0.0, WIDTH));
        let samples = [(5.0, Some(1.0)), (5.1, Some(9.0)), (5.2, Some(2.0)), (6.0, Some(1.0))];
        assert_eq!(tallest(&samples, &x), vec![(5.1, Some(9.0)), (6.0, Some(1.0))]);
    }

    #[test]
    fn no_tokens_draw_an_empty_timeline() {
        let context = Course { name: "<KV>".into(), unit: Unit::Ratio, samples: vec![(0.0, None)] };
        let svg = tokens(&[], &[context], 0.0, "tokens", "{}");
        assert!(svg.contains("&lt;KV&gt;, up to —"));
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn an_unknown_word_is_another_stall() {
        assert_eq!(stall_index(None), 0);
        assert_eq!(stall_index(Some("preempted")), 2);
        assert_eq!(stall_index(Some("cosmic ray")), 5);
    }

    #[test]
    fn a_lane_reads_out_its_pieces() {
        let piece = Piece { name: "queue <1>".into(), span_s: (0.0, 0.5), style: "queue" };
        let svg = lane(&[piece], 1.0);
        assert!(svg.contains("queue &lt;1&gt; 500"));
        assert!(svg.contains(r#"width="50.00%""#));
    }
}
