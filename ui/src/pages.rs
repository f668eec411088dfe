//! One file per page: its questions, then its markup.

pub(crate) mod overview;
pub(crate) mod different;
pub(crate) mod slo;
pub(crate) mod latency;
pub(crate) mod silence;
pub(crate) mod fleet;
pub(crate) mod node;
pub(crate) mod requests;
pub(crate) mod request;
pub(crate) mod cost;
pub(crate) mod power;
pub(crate) mod alerts;
pub(crate) mod logs;
pub(crate) mod sql;
pub(crate) mod settings;
pub(crate) mod find;
pub(crate) mod missing;
pub(crate) mod login;
pub(crate) mod share;

/// The TTFT p99 that the alert rule and the charts' line stand for, in seconds.
pub(crate) const TTFT_LIMIT_S: f64 = 1.0;
