//! What went wrong, in the caller's terms.

use std::time::Duration;

use datafusion::common::{DataFusionError, SchemaError, resources_datafusion_err};
use service::error::Kind;
use telemetry::contract::ApiError;

/// A fault of the lake on its way through a plan.
pub(crate) fn from_lake(error: service::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The query took longer than it may.
pub(crate) fn timeout(after: Duration) -> ApiError {
    api(
        "timeout",
        format!("the query was cancelled after {} s (query.timeout_ms, or less if asked)", after.as_secs_f64()),
        Some(
            "ask for a shorter stretch of time, e.g. `time > now() - INTERVAL '15 minutes'`, or raise query.timeout_ms",
        ),
    )
}

/// All places are taken and none came free in time.
pub(crate) fn overloaded(running: usize) -> ApiError {
    api("overloaded", format!("{running} queries are running (query.concurrency)"), Some("try again in a few seconds"))
}

/// So many wait for a place that one more would wait in vain.
pub(crate) fn crowded(waiting: usize) -> ApiError {
    let hint = "try again in a few seconds; `SELECT * FROM system.queries` lists what runs";
    api("overloaded", format!("{waiting} queries wait for a place (query.waiting)"), Some(hint))
}

/// A thread of the engine gave up in the middle of the query.
pub(crate) fn panicked(what: &str) -> DataFusionError {
    if what.contains("overflow") {
        return resources_datafusion_err!("a column of one batch grew past 2 GiB ({what})");
    }
    DataFusionError::External(Box::new(
        service::Error::internal(format!("the query engine failed: {what}")).with_hint(
            "this is a fault of the engine, not of the data; write the statement another way, and report it",
        ),
    ))
}

/// What a query answers when it fails.
pub(crate) fn to_api(error: &DataFusionError) -> ApiError {
    match error.find_root() {
        DataFusionError::SQL(error, _) => api("invalid", error.to_string(), None),
        DataFusionError::SchemaError(error, _) => api("invalid", error.to_string(), hint(error)),
        DataFusionError::Plan(message) => plan(message),
        DataFusionError::NotImplemented(message) | DataFusionError::Configuration(message) => {
            api("invalid", message.clone(), None)
        }
        DataFusionError::ArrowError(error, _) => calculation(error.to_string()),
        DataFusionError::Execution(message) => api("invalid", message.clone(), None),
        DataFusionError::ResourcesExhausted(message) => too_large(message.clone()),
        DataFusionError::ObjectStore(error) => {
            api("unavailable", error.to_string(), Some("try again in a few seconds"))
        }
        DataFusionError::ParquetError(error) => {
            api("unavailable", error.to_string(), Some("try again in a few seconds"))
        }
        DataFusionError::External(error) => match error.downcast_ref::<service::Error>() {
            Some(error) => from_service(error),
            None => api("internal", error.to_string(), None),
        },
        other => api("internal", other.to_string(), None),
    }
}

/// A value that cannot be computed, or a spill directory that is full, which comes dressed as one.
fn calculation(message: String) -> ApiError {
    if message.contains("max_temp_directory_size") { too_large(message) } else { api("invalid", message, None) }
}

fn too_large(message: String) -> ApiError {
    let hint = if message.contains("(query.") {
        "aggregate earlier, ask for a shorter stretch of time, or raise the setting that is named"
    } else {
        "aggregate earlier, ask for a shorter stretch of time, or raise query.memory_bytes and query.spill_bytes_max"
    };
    api("too_large", message, Some(hint))
}

fn plan(message: &str) -> ApiError {
    if let Some(what) = message.strip_prefix("DDL not supported: ").or(message.strip_prefix("DML not supported: ")) {
        return denied(what);
    }
    if let Some(what) = message.strip_prefix("Statement not supported: ") {
        return denied(what);
    }
    let hint = message.starts_with("table ").then_some("SHOW TABLES lists every view and table");
    api("invalid", message.to_owned(), hint)
}

fn denied(what: &str) -> ApiError {
    api("denied", format!("this interface only reads: {what} is refused"), Some("rows arrive through the collector"))
}

fn hint(error: &SchemaError) -> Option<&'static str> {
    matches!(error, SchemaError::FieldNotFound { .. }).then_some("DESCRIBE <table> lists its columns")
}

fn from_service(error: &service::Error) -> ApiError {
    let kind = match error.kind() {
        Kind::Throttled { .. } => "overloaded",
        Kind::Corrupt | Kind::Conflict => "internal",
        kind => kind.name(),
    };
    ApiError { kind: kind.to_owned(), message: service::error::chain(error), hint: error.hint().map(str::to_owned) }
}

fn api(kind: &str, message: String, hint: Option<&str>) -> ApiError {
    ApiError { kind: kind.to_owned(), message, hint: hint.map(str::to_owned) }
}

#[cfg(test)]
mod tests {
    use datafusion::common::DataFusionError;

    use super::to_api;

    #[test]
    fn writing_is_denied_and_says_so() {
        let error = to_api(&DataFusionError::Plan("DDL not supported: CreateView".to_owned()));
        assert_eq!(
            (error.kind.as_str(), error.message.as_str()),
            ("denied", "this interface only reads: CreateView is refused")
        );
    }

    #[test]
    fn a_fault_of_the_lake_keeps_its_kind_and_hint() {
        let fault = service::Error::not_found("version 7 of tokens is gone").with_hint("ask for a newer one");
        let error = to_api(&super::from_lake(fault).context("scan"));
        assert_eq!((error.kind.as_str(), error.hint.as_deref()), ("not_found", Some("ask for a newer one")));
    }
}
