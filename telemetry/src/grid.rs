//! Carbon intensity of the grid and facility overhead, by region, from a date on.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::dated;

/// One dated factor pair of one region.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// Cloud region; `AWS global` for a fleet-wide PUE.
    pub region: String,
    /// Grams of CO₂ equivalent per kilowatt hour, location based, average.
    pub gco2e_per_kwh: Option<f64>,
    /// Facility energy divided by IT energy.
    pub pue: Option<f64>,
    /// First instant at which it holds, µs since the epoch.
    pub effective_from_us: i64,
    /// Where it was read.
    pub source: String,
    /// When the source was current, as it says.
    pub as_of: String,
    /// `published` for regional figures, `estimated` for coefficients and country averages.
    pub confidence: String,
}

#[derive(Deserialize)]
struct Row {
    region: String,
    gco2e_per_kwh: Option<f64>,
    pue: Option<f64>,
    source: String,
    as_of: String,
}

static BUNDLED: LazyLock<Vec<Grid>> = LazyLock::new(|| {
    dated::rows::<Row>(include_str!("../../data/grid_extract.csv")).filter_map(Grid::from_row).collect()
});

/// Factors that come with Tokenwatt.
pub fn bundled() -> &'static [Grid] {
    &BUNDLED
}

/// The factors of a region at an instant: regional figures before estimates, then the newest. `None` is unknown.
pub fn at<'a>(grid: &'a [Grid], region: &str, instant_us: i64) -> Option<&'a Grid> {
    grid.iter()
        .filter(|row| row.region == region && row.effective_from_us <= instant_us)
        .max_by_key(|row| (row.confidence == "published", row.effective_from_us))
}

impl Grid {
    fn from_row(row: Row) -> Option<Grid> {
        let regional = row.source.starts_with("GSF") || row.source.starts_with("sustainability.aboutamazon.com");
        Some(Grid {
            effective_from_us: dated::start_of(&row.as_of)?,
            region: row.region,
            gco2e_per_kwh: row.gco2e_per_kwh,
            pue: row.pue,
            source: row.source,
            as_of: row.as_of,
            confidence: if regional { "published" } else { "estimated" }.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{at, bundled};

    #[test]
    fn every_bundled_row_is_understood() {
        let lines = include_str!("../../data/grid_extract.csv").lines().count();
        assert_eq!(bundled().len(), lines - 1);
    }

    #[test]
    fn a_newer_country_average_does_not_outrank_a_regional_figure() {
        let late_2026 = 1_796_000_000_000_000;
        let ireland = at(bundled(), "eu-west-1", late_2026).expect("known region");
        assert_eq!((ireland.gco2e_per_kwh, ireland.pue, ireland.as_of.as_str()), (Some(403.4), Some(1.11), "2024"));
        assert_eq!(at(bundled(), "moon-1", late_2026), None);
    }
}
