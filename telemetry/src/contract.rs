//! The seam between those who ask and the query service: pages, the command line and tests speak this and nothing else.

use std::{collections::BTreeMap, fmt, future::Future, pin::Pin};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Header with the name of the principal with whose rights a question over HTTP is to be answered. Who sees everything may name
/// another: a dashboard that asks for those who look at it.
pub const READER_HEADER: &str = "x-tokenwatt-reader";

/// One question.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SqlRequest {
    /// One read-only statement.
    pub sql: String,
    /// Values of `$name` in it; that of `$1` is called `1`. A text becomes what it is compared with: a time, a number.
    #[serde(default)]
    pub params: BTreeMap<String, Value>,
    /// Rows after which the answer is cut and marked `truncated`.
    #[serde(default)]
    pub max_rows: Option<usize>,
    /// Milliseconds after which the query is cancelled.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Time zone in which times without one are read, such as `Europe/Dublin`; UTC if none is given.
    #[serde(default)]
    pub time_zone: Option<String>,
    /// Version at which each of these tables is read, as an earlier answer names them, also by the views of the statement; the newest of
    /// those that are not here. Files that were replaced are kept for a while only (`[maintenance] keep_replaced`).
    #[serde(default)]
    pub version: BTreeMap<String, i64>,
}

/// Versions of tables as links carry them: `requests:812,tokens:90`.
#[must_use]
pub fn written_versions(versions: &BTreeMap<String, i64>) -> String {
    let each: Vec<String> = versions.iter().map(|(table, version)| format!("{table}:{version}")).collect();
    each.join(",")
}

/// Reads what [`written_versions`] wrote; -1 is the version of a table that nobody had written to.
///
/// # Errors
/// The part that is no version of a table.
pub fn read_versions(text: &str) -> Result<BTreeMap<String, i64>, String> {
    let pin = |pin: &str| {
        let (table, version) = pin.rsplit_once(':').filter(|(table, _)| !table.is_empty())?;
        let digits = version.strip_prefix('-').unwrap_or(version);
        let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        let version = version.parse().ok().filter(|version| is_number && *version >= -1)?;
        Some((table.to_owned(), version))
    };
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts.map(|part| pin(part).ok_or_else(|| part.to_owned())).collect()
}

/// One column of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerColumn {
    /// Its name.
    pub name: String,
    /// Its type in SQL's words.
    #[serde(rename = "type")]
    pub kind: String,
    /// UCUM unit, where it has one.
    #[serde(default)]
    pub unit: Option<String>,
    /// What it means, where it comes from a table or a view unchanged.
    #[serde(default)]
    pub comment: Option<String>,
}

/// An answer. Times are RFC 3339 UTC strings with microseconds, decimals are strings, maps are objects.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SqlAnswer {
    /// Columns in order.
    pub columns: Vec<AnswerColumn>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<Value>>,
    /// How fresh the tables read were; unknown when none holds a row.
    #[serde(default)]
    pub freshness: Option<Freshness>,
    /// Version of each table read.
    #[serde(default)]
    pub version: BTreeMap<String, i64>,
    /// What served it: raw rows or a roll-up, and where.
    #[serde(default)]
    pub served_by: String,
    /// What is not in the answer although it was asked for, and why: a lake that could not be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
    /// Whether rows were cut at the limit.
    #[serde(default)]
    pub truncated: bool,
    /// Milliseconds from arrival to the last row.
    #[serde(default)]
    pub elapsed_ms: f64,
}

/// How fresh an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Freshness {
    /// Newest event time in the stalest table read, µs since the epoch.
    pub newest_time_us: i64,
    /// Seconds between it and now.
    pub lag_s: f64,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiError {
    /// What the caller can do: invalid, denied, too_large, overloaded, timeout, unavailable or internal.
    pub kind: String,
    /// What went wrong.
    pub message: String,
    /// How to mend it.
    #[serde(default)]
    pub hint: Option<String>,
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)
    }
}

impl std::error::Error for ApiError {}

/// An answer on its way.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<SqlAnswer, ApiError>> + Send + 'a>>;

/// Whoever answers SQL: the query service in process, or one behind HTTP.
pub trait QueryApi: Send + Sync {
    /// Answers one read-only statement.
    ///
    /// # Errors
    /// An [`ApiError`] whose `kind` says what the caller can do. Dropping the future cancels the query.
    fn sql(&self, request: SqlRequest) -> Answering<'_>;
}
