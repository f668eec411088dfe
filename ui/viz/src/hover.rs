//! What the pointer reads off a chart.

use serde::{Deserialize, Serialize};

use crate::format::{self, Unit};
use crate::zone::Zone;

/// The samples of a chart, small enough to travel in an attribute of its SVG.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hover {
    /// Left and right end of the axis, in the unit of `x`.
    pub domain: (f64, f64),
    /// Where the samples are: µs since the epoch, or seconds since `start` of a request.
    pub x: Vec<f64>,
    /// Whether `x` is wall time.
    pub wall: bool,
    /// In whose local time it is told.
    #[serde(default, skip_serializing_if = "Zone::is_utc")]
    pub zone: Zone,
    /// One value per sample and series.
    pub series: Vec<HoverSeries>,
    /// Of a heat map: where its levels lie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<Levels>,
    /// Words that samples may carry ("prefill stall").
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
    /// Which word each sample carries, by index; empty when none does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub word_of: Vec<usize>,
}

/// Where the rows of a heat map lie, for a box that is drawn over it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Levels {
    /// Level at the bottom, in quarters of an octave.
    pub low: f64,
    /// Level at the top.
    pub high: f64,
    /// Where the plot begins, in px from the top of the picture.
    pub top: f64,
    /// How high it is, in px.
    pub height: f64,
}

impl Levels {
    /// The value at a height, in px from the top of the picture.
    pub fn value(&self, y: f64) -> f64 {
        let share = 1.0 - ((y - self.top) / self.height.max(1.0)).clamp(0.0, 1.0);
        2f64.powf((self.low + share * (self.high - self.low)) / 4.0)
    }
}

/// The values of one series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HoverSeries {
    /// Name as in the legend.
    pub name: String,
    /// Colour slot.
    pub slot: usize,
    /// Unit of the values.
    pub unit: Unit,
    /// Values; none where nothing is known.
    pub values: Vec<Option<f64>>,
}

/// One line of a tooltip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Name of the series.
    pub name: String,
    /// Colour slot.
    pub slot: usize,
    /// Value with its unit.
    pub value: String,
}

impl Hover {
    /// The sample nearest to a share (0–1) of the width, if there is any.
    pub fn nearest(&self, share: f64) -> Option<usize> {
        let (low, high) = self.domain;
        let wanted = low + share.clamp(0.0, 1.0) * (high - low);
        let after = self.x.partition_point(|x| *x < wanted);
        let before = after.checked_sub(1);
        match (before.and_then(|index| self.x.get(index)), self.x.get(after)) {
            (Some(left), Some(right)) if wanted - left <= right - wanted => before,
            (_, Some(_)) => Some(after),
            (Some(_), None) => before,
            (None, None) => None,
        }
    }

    /// Where a sample is, as a share (0–1) of the width.
    pub fn share(&self, index: usize) -> Option<f64> {
        let (low, high) = self.domain;
        let x = self.x.get(index)?;
        (high > low).then(|| ((x - low) / (high - low)).clamp(0.0, 1.0))
    }

    /// What to read at a sample: known values first, the largest on top.
    pub fn readings(&self, index: usize) -> Vec<Reading> {
        let mut rows: Vec<(Option<f64>, Reading)> = self
            .series
            .iter()
            .map(|series| {
                let value = series.values.get(index).copied().flatten();
                let text = format::text(value, series.unit);
                (value, Reading { name: series.name.clone(), slot: series.slot, value: text })
            })
            .collect();
        let one_unit =
            self.series.iter().all(|series| Some(series.unit) == self.series.first().map(|first| first.unit));
        if one_unit {
            rows.sort_by(|(a, _), (b, _)| b.unwrap_or(f64::NEG_INFINITY).total_cmp(&a.unwrap_or(f64::NEG_INFINITY)));
        }
        rows.into_iter().map(|(_, reading)| reading).collect()
    }

    /// The heading of a tooltip: the time of day in its zone, or the offset; and the sample's word.
    pub fn heading(&self, index: usize) -> String {
        let Some(x) = self.x.get(index) else { return String::new() };
        let place = if self.wall {
            clock(*x as i64, &self.zone)
        } else {
            format!("+{}", format::text(Some(*x), Unit::Seconds))
        };
        let word = self.word_of.get(index).and_then(|word| self.words.get(*word));
        match word.filter(|word| !word.is_empty()) {
            Some(word) => format!("{place} · {word}"),
            None => place,
        }
    }
}

/// Time of day of an instant in µs since the epoch, and whose time that is.
pub fn clock(at_us: i64, zone: &Zone) -> String {
    let second = zone.local_us(at_us).div_euclid(1_000_000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02} {}", second / 3_600, second / 60 % 60, second % 60, zone.name(at_us))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Hover {
        let series = |name: &str, values: Vec<Option<f64>>| HoverSeries {
            name: name.into(),
            slot: 0,
            unit: Unit::Seconds,
            values,
        };
        Hover {
            domain: (0.0, 10.0),
            x: vec![0.0, 4.0, 10.0],
            wall: false,
            zone: Zone::default(),
            series: vec![series("a", vec![Some(1.0), None, Some(2.0)]), series("b", vec![Some(3.0), Some(4.0), None])],
            levels: None,
            words: vec![String::new(), "prefill stall".into()],
            word_of: vec![0, 1, 0],
        }
    }

    #[test]
    fn a_height_on_a_heat_map_is_a_value() {
        let levels = Levels { low: -8.0, high: 8.0, top: 16.0, height: 160.0 };
        for (y, value) in [(16.0, 4.0), (96.0, 1.0), (176.0, 0.25), (500.0, 0.25), (-3.0, 4.0)] {
            assert_eq!(levels.value(y), value, "{y}");
        }
    }

    #[test]
    fn the_pointer_snaps_to_a_real_sample() {
        let hover = sample();
        assert_eq!(hover.nearest(0.0), Some(0));
        assert_eq!(hover.nearest(0.19), Some(0));
        assert_eq!(hover.nearest(0.5), Some(1));
        assert_eq!(hover.nearest(0.9), Some(2));
        assert_eq!(hover.nearest(7.0), Some(2));
        assert_eq!(Hover::default().nearest(0.5), None);
    }

    #[test]
    fn the_largest_value_is_read_first_and_unknown_last() {
        let rows = sample().readings(1);
        assert_eq!(rows[0].name, "b");
        assert_eq!(rows[1].value, format::UNKNOWN);
    }

    #[test]
    fn the_heading_names_the_stall() {
        assert_eq!(sample().heading(1).replace('\u{202f}', " "), "+4.00 s · prefill stall");
        assert_eq!(clock(1_795_971_607_000_000, &Zone::default()), "17:00:07 UTC");
        assert_eq!(sample().heading(99), "");
    }
}
