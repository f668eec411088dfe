//! Power models as operators write them: watts at rest and at full load, or points of a measured curve.

use crate::list::{self, AS_OF, CONFIDENCE, Dated, FROM, ListColumn, NOTE, SOURCE, TO, column};
use crate::record::{Record, Refusal};

/// The columns of a list of power models, in any order.
pub const COLUMNS: &[ListColumn] = &[
    column("device", true, "host type as `host.type` says it, such as `inf2.48xlarge`, or an accelerator"),
    column("boundary", true, "what the watts cover: `chip`, `board`, `node`, `wall` or `facility`"),
    column("idle_w", false, "watts at rest; every row has `max_w` or a curve"),
    column("max_w", false, "watts at full load"),
    column(
        "load",
        false,
        "points of a measured curve, rising from 0 to 1 and parted by spaces: the share of the time in which the engines ran",
    ),
    column("load_w", false, "watts at each point of `load`"),
    column(
        "method",
        false,
        "`tdp`, `percent_of_max` or `load_curve`; by the columns that are there where it is left out",
    ),
    FROM,
    TO,
    SOURCE,
    AS_OF,
    CONFIDENCE,
    NOTE,
];

const BOUNDARIES: [&str; 5] = ["chip", "board", "node", "wall", "facility"];
const METHODS: [&str; 3] = ["tdp", "percent_of_max", "load_curve"];
/// No host draws a megawatt.
const WATTS_MAX: f64 = 1e6;
/// Points of a curve.
const POINTS_MAX: usize = 1_000;

/// One dated power model.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Host type or accelerator.
    pub device: String,
    /// What the watts cover.
    pub boundary: String,
    /// Power at rest, W.
    pub idle_w: Option<f64>,
    /// Power at full load, W.
    pub max_w: Option<f64>,
    /// Load points from 0 to 1 and watts at each; empty without a curve.
    pub curve: Vec<(f64, f64)>,
    /// What the figure is.
    pub method: String,
    /// From when to when, and who says so.
    pub dated: Dated,
}

impl Listed {
    /// Reads a row.
    ///
    /// # Errors
    /// Why it is no power model.
    pub fn read(record: Record<'_>) -> Result<Listed, Refusal> {
        let watts = |name: &str| record.get(name).map(|text| number(name, text, WATTS_MAX)).transpose();
        let curve = curve(record)?;
        let end = |load: f64| curve.iter().find(|(at, _)| *at == load).map(|(_, watts)| *watts);
        let (idle_w, max_w) = (watts("idle_w")?.or(end(0.0)), watts("max_w")?.or(end(1.0)));
        if max_w.is_none() && curve.is_empty() {
            return Err(Refusal("neither `max_w` nor a curve is there".to_owned()));
        }
        if let (Some(idle), Some(max)) = (idle_w, max_w)
            && idle > max
        {
            return Err(Refusal(format!("at rest it draws {idle} W, more than the {max} W at full load")));
        }
        let usual = if curve.is_empty() { "tdp" } else { "load_curve" };
        let method = list::one_of("method", record.get("method").unwrap_or(usual), &METHODS)?;
        if (method == "load_curve") == curve.is_empty() {
            return Err(Refusal(format!("`method` is {method}, which does not go with what is there of `load`")));
        }
        Ok(Listed {
            device: record.need("device")?.to_owned(),
            boundary: list::one_of("boundary", record.need("boundary")?, &BOUNDARIES)?,
            idle_w,
            max_w,
            curve,
            method,
            dated: Dated::read(record)?,
        })
    }

    /// Whether two rows say what the same device draws at the same instant.
    pub fn clashes(&self, other: &Listed) -> bool {
        (&self.device, &self.boundary) == (&other.device, &other.boundary) && self.dated.overlaps(&other.dated)
    }
}

fn curve(record: Record<'_>) -> Result<Vec<(f64, f64)>, Refusal> {
    let points = |name: &str, most: f64| match record.get(name) {
        Some(text) => text.split_whitespace().map(|text| number(name, text, most)).collect::<Result<Vec<_>, _>>(),
        None => Ok(Vec::new()),
    };
    let (load, watts) = (points("load", 1.0)?, points("load_w", WATTS_MAX)?);
    if load.len() != watts.len() {
        return Err(Refusal(format!("{} points of `load`, but {} of `load_w`", load.len(), watts.len())));
    }
    if load.len() == 1 || load.len() > POINTS_MAX {
        return Err(Refusal(format!("a curve has 2 to {POINTS_MAX} points, not {}", load.len())));
    }
    if !load.is_sorted_by(|a, b| a < b) {
        return Err(Refusal("`load` does not rise from point to point".to_owned()));
    }
    Ok(load.into_iter().zip(watts).collect())
}

fn number(name: &str, text: &str, most: f64) -> Result<f64, Refusal> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..=most).contains(&number) => Ok(number),
        _ => Err(Refusal(format!("`{name}` has {text:?}, not a number from 0 to {most}"))),
    }
}

/// Watts at a load between the points of a curve, on the straight line from point to point; beyond its ends those of the ends. `None`
/// without points, or where they are not as many as each other.
pub fn watts_at(load: &[f64], watts: &[f64], at: f64) -> Option<f64> {
    if load.len() != watts.len() || !at.is_finite() {
        return None;
    }
    let after = load.partition_point(|point| *point < at);
    let (Some(to), Some(to_w)) = (load.get(after), watts.get(after)) else { return watts.last().copied() };
    let before = after.checked_sub(1).and_then(|before| Some((load.get(before)?, watts.get(before)?)));
    let Some((from, from_w)) = before else { return Some(*to_w) };
    Some(from_w + (to_w - from_w) * (at - from) / (to - from))
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, Listed, watts_at};
    use crate::list::fixture;

    const NAMES: [&str; 9] =
        ["device", "boundary", "idle_w", "max_w", "load", "load_w", "method", "effective_from", "source"];
    const GOOD: [&str; 9] =
        ["p5.48xlarge", "node", "", "", "0 0.25 1", "3500 7000 10200", "", "2026-01-01", "wall meter of rack 7"];

    fn read(values: [&str; 9]) -> Result<Listed, String> {
        fixture::row(Listed::read, NAMES, values)
    }

    #[test]
    fn a_curve_says_what_rest_and_full_load_draw() {
        let listed = read(GOOD).expect("a model");
        assert_eq!((listed.idle_w, listed.max_w, listed.method.as_str()), (Some(3500.0), Some(10200.0), "load_curve"));
        let mut figure = GOOD;
        (figure[4], figure[5], figure[3]) = ("", "", "10200");
        assert_eq!(read(figure).expect("a model").method, "tdp");
    }

    /// Half way from 0.25 to 1 is 0.625: half way from 7,000 to 10,200 W.
    #[test]
    fn between_points_lies_a_straight_line() {
        let (load, watts) = ([0.25, 1.0], [7000.0, 10_200.0]);
        for (at, expected) in [(0.625, 8600.0), (0.25, 7000.0), (1.0, 10_200.0), (0.0, 7000.0), (1.5, 10_200.0)] {
            assert_eq!(watts_at(&load, &watts, at), Some(expected), "{at}");
        }
        assert_eq!(watts_at(&[], &[], 0.5), None);
        assert_eq!(watts_at(&load, &watts[..1], 0.5), None);
        assert_eq!(watts_at(&load, &watts, f64::NAN), None);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let wrong = [
            (1, "rack", "not one of chip"),
            (2, "20000", "at rest it draws 20000 W"),
            (2, "-1", "not a number from 0"),
            (4, "0 1", "2 points of `load`, but 3 of `load_w`"),
            (4, "0 0.5 0.5", "does not rise"),
            (4, "0 50 100", "not a number from 0 to 1"),
            (5, "3500 NaN 1", "\"NaN\""),
            (6, "tdp", "does not go with"),
            (8, "", "`source` is missing"),
        ];
        fixture::refuses(Listed::read, NAMES, GOOD, &wrong);
        let mut nothing = GOOD;
        (nothing[4], nothing[5]) = ("", "");
        assert!(read(nothing).expect_err("nothing").contains("neither `max_w` nor a curve"));
    }

    /// docs/power.md says what can be written, in the words of [`COLUMNS`].
    #[test]
    fn every_column_is_documented() {
        fixture::documents("docs/power.md", include_str!("../../../docs/power.md"), COLUMNS);
    }
}
