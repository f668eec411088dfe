//! The answer as pages, the command line and JSON clients read it.

use telemetry::contract::SqlAnswer;

use crate::{encode, execute::Collected};

/// What serves every answer until there are roll-ups.
pub(crate) const SERVED_BY: &str = "raw rows";

/// The answer with its rows as JSON values.
pub(crate) fn json(collected: Collected) -> SqlAnswer {
    SqlAnswer {
        columns: collected.columns,
        rows: collected.batches.iter().flat_map(encode::rows).collect(),
        freshness: collected.freshness,
        version: collected.version,
        served_by: SERVED_BY.to_owned(),
        truncated: collected.truncated,
        elapsed_ms: collected.elapsed.as_secs_f64() * 1e3,
    }
}
