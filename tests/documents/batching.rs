//! `docs/images/batching.svg`: p99 time to first token by users, drawn with the dashboard's own scales and paths.

use std::fmt::Write;

use inference_node::docs::BatchingPoint;
use viz::scale::Scale;
use viz::{escape, path, tick};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 340.0;
/// Left, right, top and bottom of the plot.
const PLOT: (f64, f64, f64, f64) = (64.0, 620.0, 40.0, 292.0);
/// Dark enough on white and light enough on black.
const LINES: [(&str, &str); 2] = [("continuous batching", "#2a78d6"), ("static batching", "#d0632b")];
const INK: &str = "#7a7f87";

/// The picture of the points.
pub(super) fn svg(points: &[BatchingPoint]) -> String {
    let series: [Vec<(f64, f64)>; 2] = [
        points.iter().map(|point| (f64::from(point.users), point.continuous_s)).collect(),
        points.iter().map(|point| (f64::from(point.users), point.static_s)).collect(),
    ];
    let values = || series.iter().flatten().map(|(_, seconds)| *seconds);
    let ticks = tick::log(values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let domain = (ticks.first().copied().unwrap_or(0.01), ticks.last().copied().unwrap_or(10.0));
    let users = |point: Option<&BatchingPoint>| point.map_or(0.0, |point| f64::from(point.users));
    let x = Scale::linear((users(points.first()), users(points.last())), (PLOT.0, PLOT.1));
    let y = Scale::log(domain, (PLOT.3, PLOT.2));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" font-family=\"system-ui, sans-serif\" \
         font-size=\"13\">\n<title>p99 time to first token by users, continuous and static batching</title>\n\
         <text x=\"{}\" y=\"20\" fill=\"{INK}\">p99 time to first token, Llama-3-8B INT8 on inf2.48xlarge (simulated)</text>\n",
        PLOT.0,
    );
    for value in ticks {
        let height = y.at(value).unwrap_or(PLOT.3);
        let label = if value < 1.0 { format!("{:.0} ms", 1e3 * value) } else { format!("{value:.0} s") };
        let _ = writeln!(
            svg,
            "<path d=\"M{} {height:.1}H{}\" stroke=\"{INK}\" stroke-opacity=\".35\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{INK}\">{label}</text>",
            PLOT.0,
            PLOT.1,
            PLOT.0 - 8.0,
            height + 4.0,
        );
    }
    for point in points {
        let place = x.at(f64::from(point.users)).unwrap_or(PLOT.0);
        let _ = writeln!(
            svg,
            "<text x=\"{place:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"{INK}\">{}</text>",
            PLOT.3 + 20.0,
            point.users
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"{INK}\">users</text>",
        0.5 * (PLOT.0 + PLOT.1),
        PLOT.3 + 40.0
    );
    for ((name, colour), line) in LINES.into_iter().zip(&series) {
        let samples: Vec<_> = line.iter().map(|(at, value)| (*at, Some(*value))).collect();
        let _ = writeln!(
            svg,
            "<path d=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.5\" stroke-linecap=\"round\"/>",
            path::line(&samples, &x, &y),
        );
        if let Some((_, last)) = line.last() {
            let height = y.at(*last).unwrap_or(PLOT.3) - 10.0;
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{height:.1}\" text-anchor=\"end\" fill=\"{colour}\">{}</text>",
                PLOT.1,
                escape(name)
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}
