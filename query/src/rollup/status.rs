//! `system.rollups`: how far each roll-up is.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::error::ArrowError;
use lake::Snapshot;

use super::Rollup;
use super::window::{Built, Versions};

/// A roll-up, its lake and its table there.
type OfLake = (&'static Rollup, Option<String>, Arc<Snapshot>);

/// One row per roll-up: what it is, through when its windows are built, and from which versions of its sources. `windows` are
/// each one's table, with its lake where there are several.
pub(crate) fn batch(windows: &[OfLake], now_us: i64) -> Result<RecordBatch, ArrowError> {
    let states: Vec<_> = windows.iter().map(|(rollup, _, snapshot)| (*rollup, Built::of(rollup, snapshot))).collect();
    let whole = |value: fn(&Built) -> i64| -> ArrayRef {
        Arc::new(states.iter().map(|(_, built)| built.as_ref().map(value)).collect::<Int64Array>())
    };
    let text = |value: &dyn Fn(&Rollup, Option<&Built>) -> Option<String>| -> ArrayRef {
        Arc::new(states.iter().map(|(rollup, built)| value(rollup, built.as_ref())).collect::<StringArray>())
    };
    let through = states.iter().map(|(_, built)| built.as_ref().map(|built| built.through_us));
    let lag = through.clone().map(|through| through.map(|us| now_us.saturating_sub(us) as f64 / 1e6));
    let seconds = states.iter().map(|(rollup, _)| Some(rollup.window_us as f64 / 1e6));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("table", text(&|rollup, _| Some(rollup.table.name.to_owned()))),
        ("view", text(&|rollup, _| Some(rollup.view.name.to_owned()))),
        ("window_s", Arc::new(seconds.collect::<Float64Array>())),
        ("through", Arc::new(through.collect::<TimestampMicrosecondArray>().with_timezone("UTC"))),
        ("lag_s", Arc::new(lag.collect::<Float64Array>())),
        ("sources", text(&|_, built| built.map(|built| versions(&built.settled)))),
        ("files", whole(|built| i64::try_from(built.files.len()).unwrap_or(i64::MAX))),
        ("rebuilt_windows", whole(|built| built.rebuilt)),
        ("folded_keys", whole(|built| built.folded)),
        ("lake", Arc::new(windows.iter().map(|(_, lake, _)| lake.as_deref()).collect::<StringArray>())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
}

fn versions(versions: &Versions) -> String {
    versions.iter().map(|(name, version)| format!("{name} {version}")).collect::<Vec<_>>().join(", ")
}
