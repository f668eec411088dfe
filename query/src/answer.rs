//! The answer as pages, the command line and JSON clients read it.

use telemetry::contract::SqlAnswer;

use crate::{encode, execute::Collected};

/// The answer with its rows as JSON values.
pub(crate) fn json(collected: Collected) -> SqlAnswer {
    SqlAnswer {
        columns: collected.columns,
        rows: collected.batches.iter().flat_map(encode::rows).collect(),
        freshness: collected.freshness,
        version: collected.version,
        served_by: collected.served_by,
        notice: collected.notice,
        truncated: collected.truncated,
        elapsed_ms: collected.elapsed.as_secs_f64() * 1e3,
    }
}
