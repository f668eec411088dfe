//! Carbon intensity of the grid and facility overhead, by region, from a date on.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::dated;

pub mod list;

/// One dated factor pair of one region.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// Cloud region; `AWS global` for a fleet-wide PUE.
    pub region: String,
    /// Grams of CO₂ equivalent per kilowatt hour, by `method`.
    pub gco2e_per_kwh: Option<f64>,
    /// What the grams are: [`AVERAGE`], [`MARGINAL`] or [`MARKET`].
    pub method: &'static str,
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
    /// Whether an operator imported it, which goes before what comes with Tokenwatt.
    pub is_own: bool,
}

/// What the grid of the region emits for a kilowatt hour.
pub const AVERAGE: &str = "location based, average";
/// What it would emit for one more.
pub const MARGINAL: &str = "location based, marginal";
/// What is left by contracts and certificates of whoever pays.
pub const MARKET: &str = "market based";

#[derive(Deserialize)]
struct Row {
    region: String,
    gco2e_per_kwh: Option<f64>,
    pue: Option<f64>,
    source: String,
    as_of: String,
}

static BUNDLED: LazyLock<Vec<Grid>> = LazyLock::new(|| {
    dated::rows::<Row>(include_str!("../../data/grid_extract.csv"))
        .filter_map(Grid::from_row)
        .flat_map(Grid::methods)
        .collect()
});

/// Factors that come with Tokenwatt.
pub fn bundled() -> &'static [Grid] {
    &BUNDLED
}

/// The average factors of a region at an instant: an operator's own before ours, regional figures before estimates, then the newest. `None` is unknown.
pub fn at<'a>(grid: &'a [Grid], region: &str, instant_us: i64) -> Option<&'a Grid> {
    grid.iter()
        .filter(|row| row.method == AVERAGE && row.region == region && row.effective_from_us <= instant_us)
        .max_by_key(|row| (row.is_own, row.confidence == "published", row.effective_from_us))
}

impl Grid {
    fn from_row(row: Row) -> Option<Grid> {
        let regional = row.source.starts_with("GSF") || row.source.starts_with("sustainability.aboutamazon.com");
        Some(Grid {
            effective_from_us: dated::start_of(&row.as_of)?,
            region: row.region,
            gco2e_per_kwh: row.gco2e_per_kwh,
            method: AVERAGE,
            pue: row.pue,
            source: row.source,
            as_of: row.as_of,
            is_own: false,
            confidence: if regional { "published" } else { "estimated" }.to_owned(),
        })
    }

    /// The row, and that of marginal grams where its source names them (`marginal=557.17`).
    fn methods(self) -> impl Iterator<Item = Grid> {
        let grams = self.source.split_once("marginal=").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        let marginal =
            grams.map(|grams| Grid { gco2e_per_kwh: Some(grams), method: MARGINAL, pue: None, ..self.clone() });
        std::iter::once(self).chain(marginal)
    }
}

#[cfg(test)]
mod tests {
    use super::{AVERAGE, MARGINAL, at, bundled};

    #[test]
    fn every_bundled_row_is_understood() {
        let lines = include_str!("../../data/grid_extract.csv").lines().count();
        assert_eq!(bundled().iter().filter(|row| row.method == AVERAGE).count(), lines - 1);
    }

    #[test]
    fn marginal_grams_stand_apart_from_the_average() {
        let of = |method: &str| {
            let found =
                bundled().iter().find(|row| row.region == "us-east-1" && row.as_of == "2024" && row.method == method);
            found.and_then(|row| row.gco2e_per_kwh)
        };
        assert_eq!((of(AVERAGE), of(MARGINAL)), (Some(396.25), Some(557.17)));
    }

    #[test]
    fn a_newer_country_average_does_not_outrank_a_regional_figure() {
        let late_2026 = 1_796_000_000_000_000;
        let ireland = at(bundled(), "eu-west-1", late_2026).expect("known region");
        assert_eq!((ireland.gco2e_per_kwh, ireland.pue, ireland.as_of.as_str()), (Some(403.4), Some(1.11), "2024"));
        assert_eq!(at(bundled(), "moon-1", late_2026), None);
    }
}
