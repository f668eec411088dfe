//! Samples to the `d` attribute of an SVG path.
//!
//! Coordinates are steps of a tenth of a unit relative to the point before: half the bytes of
//! absolute ones, and finer than a screen can show.

use std::fmt::Write;

use crate::reduce::Sample;
use crate::scale::Scale;

/// The path of a line that breaks where a value is missing. A lone value becomes a point: a move
/// and a line of no length, which a round cap turns into a dot.
pub fn line(samples: &[Sample], x: &Scale, y: &Scale) -> String {
    let mut pen = Pen::default();
    let mut run: Vec<(f64, f64)> = Vec::new();
    for (at, value) in samples {
        let place = value.and_then(|value| x.at(*at).zip(y.at(value)));
        match place {
            Some(place) => run.push(place),
            None => pen.run(&mut run),
        }
    }
    pen.run(&mut run);
    pen.d
}

/// Upright strokes from `base` to the place of each value.
pub fn strokes(samples: &[Sample], base: f64, x: &Scale, y: &Scale) -> String {
    let mut pen = Pen::default();
    for (at, value) in samples {
        if let Some((x, y)) = value.and_then(|value| x.at(*at).zip(y.at(value))) {
            pen.go('m', x, base);
            pen.vertical(y);
        }
    }
    pen.d
}

/// A line that keeps its value until the next sample.
pub fn steps(samples: &[Sample], x: &Scale, y: &Scale) -> String {
    let mut pen = Pen::default();
    let mut held: Option<f64> = None;
    for (at, value) in samples {
        let place = value.and_then(|value| x.at(*at).zip(y.at(value)));
        match (place, held) {
            (Some((x, y)), Some(before)) => {
                pen.go('l', x, before);
                pen.vertical(y);
                held = Some(y);
            }
            (Some((x, y)), None) => {
                pen.go('m', x, y);
                held = Some(y);
            }
            (None, _) => held = None,
        }
    }
    pen.d
}

/// A box: left, right, top, bottom.
pub type Rect = (f64, f64, f64, f64);

/// Boxes as one path. What has no width or height is left out.
pub fn boxes(rects: impl IntoIterator<Item = Rect>) -> String {
    let mut pen = Pen::default();
    for (left, right, top, bottom) in rects {
        if tenths(right) <= tenths(left) || tenths(bottom) <= tenths(top) {
            continue;
        }
        pen.go('m', left, top);
        pen.d.push('h');
        pen.number(tenths(right) - tenths(left));
        pen.d.push('v');
        pen.number(tenths(bottom) - tenths(top));
        pen.d.push('h');
        pen.number(tenths(left) - tenths(right));
        // Closing brings the pen back to where the box began.
        pen.d.push('z');
    }
    pen.d
}

/// Where the pen is, in tenths, and what it has drawn.
#[derive(Default)]
struct Pen {
    d: String,
    x: i64,
    y: i64,
}

impl Pen {
    fn run(&mut self, run: &mut Vec<(f64, f64)>) {
        for (index, (x, y)) in run.iter().enumerate() {
            self.go(if index == 0 { 'm' } else { 'l' }, *x, *y);
        }
        if run.len() == 1 {
            self.d.push_str("h0");
        }
        run.clear();
    }

    fn go(&mut self, command: char, x: f64, y: f64) {
        let (x, y) = (tenths(x), tenths(y));
        self.d.push(command);
        self.number(x - self.x);
        if y >= self.y {
            self.d.push(' ');
        }
        self.number(y - self.y);
        (self.x, self.y) = (x, y);
    }

    fn vertical(&mut self, y: f64) {
        let y = tenths(y);
        self.d.push('v');
        self.number(y - self.y);
        self.y = y;
    }

    fn number(&mut self, tenths: i64) {
        let sign = if tenths < 0 { "-" } else { "" };
        let (whole, part) = (tenths.abs() / 10, tenths.abs() % 10);
        // Writing to a string cannot fail.
        let _ = if part == 0 { write!(self.d, "{sign}{whole}") } else { write!(self.d, "{sign}{whole}.{part}") };
    }
}

fn tenths(value: f64) -> i64 {
    (value * 10.0).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit() -> Scale {
        Scale::linear((0.0, 10.0), (0.0, 10.0))
    }

    fn check_line(samples: &[Sample], expected: &str) {
        assert_eq!(line(samples, &unit(), &unit()), expected);
    }

    #[test]
    fn points_are_relative_to_the_one_before() {
        check_line(&[(1.0, Some(1.0)), (2.0, Some(3.0)), (3.0, Some(2.5))], "m1 1l1 2l1-0.5");
    }

    #[test]
    fn a_missing_value_breaks_the_line_and_a_lone_one_is_a_dot() {
        check_line(&[(1.0, Some(1.0)), (2.0, None), (3.0, Some(2.0)), (4.0, Some(2.0))], "m1 1h0m2 1l1 0");
        check_line(&[(1.0, Some(f64::NAN))], "");
        check_line(&[], "");
    }

    #[test]
    fn steps_hold_the_value() {
        assert_eq!(steps(&[(0.0, Some(1.0)), (2.0, Some(4.0))], &unit(), &unit()), "m0 1l2 0v3");
    }

    #[test]
    fn boxes_are_closed_and_empty_ones_are_left_out() {
        let rects = [(0.0, 2.0, 1.0, 3.0), (2.0, 2.0, 0.0, 5.0), (4.0, 6.0, 1.0, 2.0)];
        assert_eq!(boxes(rects), "m0 1h2v2h-2zm4 0h2v1h-2z");
    }

    #[test]
    fn strokes_stand_on_the_base() {
        assert_eq!(strokes(&[(1.0, Some(4.0))], 10.0, &unit(), &unit()), "m1 10v-6");
    }
}
