//! Questions to the query service, each with a deadline of its own.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use telemetry::contract::{ApiError, QueryApi, SqlAnswer, SqlRequest};

/// Rows that a panel reads at most; a chart's step is chosen so that it stays below.
const PANEL_ROWS: usize = 20_000;

/// Puts questions, and remembers since when a panel has been failing.
#[derive(Clone)]
pub(crate) struct Asker {
    api: Arc<dyn QueryApi>,
    deadline: Duration,
    /// Panel → first failure since its last answer, µs. Bounded by the number of panels.
    failing: Arc<Mutex<BTreeMap<&'static str, i64>>>,
}

/// A question with its outcome.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The panel's name: its page, a dot, and what is asked.
    pub(crate) name: &'static str,
    /// The statement, as the SQL page would run it.
    pub(crate) sql: String,
    /// Rows, or why there are none.
    pub(crate) outcome: Result<Answer, Failure>,
}

/// Why a panel has nothing to show.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// What the query service said.
    pub(crate) error: ApiError,
    /// First failure since the last answer, µs since the epoch.
    pub(crate) since_us: i64,
}

impl Asker {
    pub(crate) fn new(api: Arc<dyn QueryApi>, deadline: Duration) -> Self {
        Self { api, deadline, failing: Arc::default() }
    }

    /// Asks for a panel.
    pub(crate) async fn panel(&self, name: &'static str, now_us: i64, sql: String) -> Asked {
        let outcome = self.run(&sql, PANEL_ROWS, self.deadline).await;
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = match outcome {
            Ok(answer) => {
                failing.remove(name);
                Ok(answer)
            }
            Err(error) => {
                let since_us = *failing.entry(name).or_insert(now_us);
                tracing::debug!(panel = name, kind = error.kind, message = error.message, "panel has no answer");
                Err(Failure { error, since_us })
            }
        };
        Asked { name, sql, outcome }
    }

    /// Asks what a person typed: more time, fewer rows.
    pub(crate) async fn typed(&self, sql: &str, max_rows: usize) -> Result<Answer, ApiError> {
        self.run(sql, max_rows, Duration::from_secs(30)).await
    }

    async fn run(&self, sql: &str, max_rows: usize, deadline: Duration) -> Result<Answer, ApiError> {
        let timeout_ms = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
        let request = SqlRequest {
            sql: sql.to_owned(),
            params: BTreeMap::new(),
            max_rows: Some(max_rows),
            timeout_ms: Some(timeout_ms),
        };
        match tokio::time::timeout(deadline, self.api.sql(request)).await {
            Ok(outcome) => outcome.map(Answer::new),
            Err(_) => Err(ApiError {
                kind: "timeout".to_owned(),
                message: format!("no answer within {:.1} s", deadline.as_secs_f64()),
                hint: Some(
                    "choose a shorter range, or run the statement on the SQL page, where it has 30 s".to_owned(),
                ),
            }),
        }
    }
}

/// Rows whose values are found by column name.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    inner: SqlAnswer,
    places: HashMap<String, usize>,
}

impl Answer {
    fn new(inner: SqlAnswer) -> Self {
        let places = inner.columns.iter().enumerate().map(|(place, column)| (column.name.clone(), place)).collect();
        Self { inner, places }
    }

    /// The answer as it came.
    pub(crate) fn raw(&self) -> &SqlAnswer {
        &self.inner
    }

    /// Its rows.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row<'_>> + Clone {
        self.inner.rows.iter().map(|values| Row { answer: self, values })
    }

    /// Its first row.
    pub(crate) fn first(&self) -> Option<Row<'_>> {
        self.rows().next()
    }
}

/// One row of an answer.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    answer: &'a Answer,
    values: &'a [Value],
}

impl<'a> Row<'a> {
    fn value(&self, column: &str) -> Option<&'a Value> {
        self.values.get(*self.answer.places.get(column)?).filter(|value| !value.is_null())
    }

    /// The answer it is a row of.
    pub(crate) fn answer(&self) -> &'a Answer {
        self.answer
    }

    /// Its values, in the order of the columns.
    pub(crate) fn values(&self) -> &'a [Value] {
        self.values
    }

    /// A map of names to values.
    pub(crate) fn map(&self, column: &str) -> Option<&'a serde_json::Map<String, Value>> {
        self.value(column)?.as_object()
    }

    /// A number, also one that travels as text (decimals do).
    pub(crate) fn number(&self, column: &str) -> Option<f64> {
        let value = self.value(column)?;
        value.as_f64().or_else(|| value.as_str()?.parse().ok()).filter(|number| number.is_finite())
    }

    /// A text that is not empty.
    pub(crate) fn text(&self, column: &str) -> Option<&'a str> {
        self.value(column)?.as_str().filter(|text| !text.is_empty())
    }

    /// An instant in µs since the epoch.
    pub(crate) fn time(&self, column: &str) -> Option<i64> {
        instant(self.value(column)?)
    }
}

/// An instant as answers write it: RFC 3339, with or without its zone, which is UTC.
fn instant(value: &Value) -> Option<i64> {
    let text = value.as_str()?;
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Some(at.as_microsecond());
    }
    let civil: jiff::civil::DateTime = text.parse().ok()?;
    civil.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|at| at.timestamp().as_microsecond())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use telemetry::contract::AnswerColumn;

    use super::*;

    #[test]
    fn values_are_read_by_name_and_null_is_nothing() {
        let column = |name: &str| AnswerColumn { name: name.into(), kind: "VARCHAR".into(), unit: None, comment: None };
        let answer = Answer::new(SqlAnswer {
            columns: ["cost", "ttft", "region", "time"].map(column).to_vec(),
            rows: vec![
                vec![json!("12.981000000000"), json!(0.25), json!("eu-west-1"), json!("2026-11-29T12:00:00.000001Z")],
                vec![json!(null), json!(null), json!(""), json!("2026-11-29T12:00:00")],
            ],
            ..SqlAnswer::default()
        });
        let rows: Vec<_> = answer.rows().collect();
        assert_eq!(rows[0].number("cost"), Some(12.981));
        assert_eq!(rows[0].text("region"), Some("eu-west-1"));
        assert_eq!(rows[0].time("time"), Some(1_795_953_600_000_001));
        assert_eq!(rows[1].number("cost"), None);
        assert_eq!(rows[1].text("region"), None);
        assert_eq!(rows[1].time("time"), Some(1_795_953_600_000_000));
        assert_eq!(rows[0].number("no such column"), None);
    }
}
