//! Questions to the query service, each with a deadline of its own.

pub(crate) mod rest;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rest::{Parts, Rest};
use serde_json::Value;
use telemetry::contract::{ApiError, QueryApi, SqlAnswer, SqlRequest};
use tokio::sync::watch;

use crate::panel::links::Versions;
use crate::server::Visit;

/// Rows that a panel reads at most; a chart's step is chosen so that it stays below.
const PANEL_ROWS: usize = 20_000;

/// Puts questions, and remembers since when a panel has been failing.
#[derive(Clone)]
pub(crate) struct Asker {
    api: Arc<dyn QueryApi>,
    deadline: Duration,
    /// Panel → first failure since its last answer, µs. Bounded by the number of panels.
    failing: Arc<Mutex<BTreeMap<&'static str, i64>>>,
    /// Answers that are dear and change slowly, by panel and scope.
    kept: Arc<Mutex<HashMap<String, Kept>>>,
    /// Pages that were sent without some of their answers.
    parts: Parts,
}

/// An answer that several visits share.
#[derive(Clone)]
struct Kept {
    asked_us: i64,
    /// The statement whose answer this is.
    sql: String,
    /// None while the first answer is on its way.
    outcome: watch::Receiver<Option<Result<Answer, ApiError>>>,
    /// The answer before, while the next one is on its way.
    before: Option<(String, Answer)>,
}

/// An answer is asked for anew after this long.
const KEPT_FOR_US: i64 = 30_000_000;
/// One without anything in it is asked for anew after this long: data may just have begun to come.
const NOTHING_KEPT_FOR_US: i64 = 3_000_000;
/// How long a page waits for a new answer when it has one to show.
const PATIENCE: Duration = Duration::from_millis(400);
/// How long it waits for one that is shown as soon as it is there.
const PAGE_PATIENCE: Duration = Duration::from_millis(400);
/// How long a page that goes on waits for answers that come together.
const TOGETHER: Duration = Duration::from_millis(30);
/// How long it waits for one that it can do without.
const FIRST_PATIENCE: Duration = Duration::from_millis(1_500);
/// An older answer is not shown in place of one that is on its way.
const STALE_AFTER_US: i64 = 180_000_000;
/// Answers kept at most; beyond, all are dropped.
const KEPT_MOST: usize = 256;
/// A kept answer may take longer than a page waits: it is there for the next visit.
const KEPT_DEADLINE: Duration = Duration::from_secs(30);

/// The name of what a person typed, among panels.
const TYPED: &str = "sql.typed";
/// What a person typed may take this long.
const TYPED_DEADLINE: Duration = Duration::from_secs(30);

/// Kind of an outcome that is still on its way.
pub(crate) const PENDING: &str = "pending";

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
        Self { api, deadline, failing: Arc::default(), kept: Arc::default(), parts: Parts::default() }
    }

    /// The same with failures of its own, to see how one page went.
    pub(crate) fn apart(&self) -> Self {
        Self { failing: Arc::default(), ..self.clone() }
    }

    /// Whether the newest answer of every panel is there; what its reader may not see is not missing.
    pub(crate) fn has_answered(&self) -> bool {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Asks for a panel.
    pub(crate) async fn panel(&self, name: &'static str, now_us: i64, sql: String) -> Asked {
        let outcome = run(&*self.api, of_panel(&sql), self.deadline).await;
        self.told(name, now_us, sql, outcome)
    }

    /// Asks for a panel that no other waits for: what takes longer than a page waits is shown as soon as it is there. Only a page that
    /// cannot be gone on with, such as an image, waits for all.
    pub(crate) async fn in_time(&self, visit: &Visit, name: &'static str, sql: String) -> Asked {
        let (mut coming, before) = visit.rest.ask(&self.api, name, &sql, self.deadline);
        let patience = match (visit.is_patient, before) {
            // The question ends by its own deadline.
            (true, _) => self.deadline + PATIENCE,
            (false, false) => PAGE_PATIENCE,
            (false, true) => {
                if coming.borrow().is_none() {
                    visit.turn.get_or_init(|| visit.rest.more()).await;
                }
                TOGETHER
            }
        };
        let waited = tokio::time::timeout(patience, coming.wait_for(Option::is_some)).await.ok();
        let outcome = waited.map(|outcome| outcome.ok().and_then(|outcome| outcome.clone()));
        let outcome = match outcome {
            Some(outcome) => {
                visit.rest.shown(name, &sql);
                outcome.unwrap_or_else(|| Err(late(self.deadline)))
            }
            None if visit.is_patient => Err(late(self.deadline)),
            None => {
                visit.is_partial.store(true, Ordering::Relaxed);
                Err(coming_soon())
            }
        };
        self.told(name, visit.now_us, sql, outcome)
    }

    /// What a page that was sent in part goes on with.
    pub(crate) fn part(&self, number: u64, here: &str) -> Option<Arc<Rest>> {
        self.parts.find(number, here)
    }

    /// Notes how a page was sent; its number, if there is more to come.
    pub(crate) fn sent(&self, visit: &Visit) -> Option<u64> {
        let is_partial = visit.is_partial.load(Ordering::Relaxed);
        self.parts.sent(&visit.rest, !is_partial);
        is_partial.then_some(visit.rest.number)
    }

    /// Asks for a panel whose answer is dear and changes slowly: `key` says what it is about, apart from the time. The
    /// answer is shared by all who ask within half a minute; while a newer one is on its way the one before is shown,
    /// with its own statement.
    pub(crate) async fn kept(&self, name: &'static str, key: &str, now_us: i64, sql: String) -> Asked {
        self.kept_within(name, key, now_us, sql, self.deadline).await
    }

    /// The same for an answer that a page does without until it is there: the first visit does not wait for it.
    pub(crate) async fn later(&self, name: &'static str, key: &str, now_us: i64, sql: String) -> Asked {
        let asked = self.kept_within(name, key, now_us, sql, FIRST_PATIENCE.min(self.deadline)).await;
        let is_late = |failure: &Failure| failure.error.kind == "timeout";
        match asked.outcome {
            Err(failure) if is_late(&failure) => {
                Asked { outcome: Err(Failure { error: on_its_way(), ..failure }), ..asked }
            }
            _ => asked,
        }
    }

    async fn kept_within(&self, name: &'static str, key: &str, now_us: i64, sql: String, first: Duration) -> Asked {
        let key = format!("{name} {key}");
        let mut kept = self.keep(&key, now_us, sql);
        let patience = if kept.before.is_some() { PATIENCE } else { first };
        let waited = tokio::time::timeout(patience, kept.outcome.wait_for(Option::is_some)).await.ok();
        let outcome = waited.and_then(Result::ok).and_then(|outcome| outcome.clone());
        match (outcome, kept.before) {
            (Some(outcome), _) => self.told(name, now_us, kept.sql, outcome),
            (None, Some((sql, answer))) => self.told(name, now_us, sql, Ok(answer)),
            (None, None) => self.told(name, now_us, kept.sql, Err(late(self.deadline))),
        }
    }

    /// What is kept under a key, asked for anew when it is too old.
    fn keep(&self, key: &str, now_us: i64, sql: String) -> Kept {
        let mut all = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.get(key);
        // One that failed is tried again at once, one that is on its way is not asked for twice.
        let useful = |kept: &&Kept| {
            let age = now_us - kept.asked_us;
            match &*kept.outcome.borrow() {
                Some(Err(_)) => false,
                Some(Ok(answer)) if answer.says_nothing() => age < NOTHING_KEPT_FOR_US,
                Some(Ok(_)) => age < KEPT_FOR_US,
                None => kept.outcome.has_changed().is_ok() && age < KEPT_FOR_US,
            }
        };
        if let Some(kept) = known.filter(useful) {
            return kept.clone();
        }
        let before = known.filter(|kept| now_us - kept.asked_us < STALE_AFTER_US).and_then(|kept| {
            match &*kept.outcome.borrow() {
                Some(Ok(answer)) => Some((kept.sql.clone(), answer.clone())),
                _ => None,
            }
        });
        if all.len() >= KEPT_MOST {
            all.clear();
        }
        let (tell, outcome) = watch::channel(None);
        let kept = Kept { asked_us: now_us, sql: sql.clone(), outcome, before };
        all.insert(key.to_owned(), kept.clone());
        let api = Arc::clone(&self.api);
        // Outlives the visit, but not its deadline.
        tokio::spawn(async move {
            let outcome = run(&*api, of_panel(&sql), KEPT_DEADLINE).await;
            // Nobody may be waiting any more; then it is found in the map.
            tell.send_replace(Some(outcome));
        });
        kept
    }

    fn told(&self, name: &'static str, now_us: i64, sql: String, outcome: Result<Answer, ApiError>) -> Asked {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = match outcome {
            Ok(answer) => {
                failing.remove(name);
                Ok(answer)
            }
            Err(error) => {
                let is_refusal = error.kind == "denied";
                let since_us = if is_refusal { now_us } else { *failing.entry(name).or_insert(now_us) };
                tracing::debug!(panel = name, kind = error.kind, message = error.message, "panel has no answer");
                Err(Failure { error, since_us })
            }
        };
        Asked { name, sql, outcome }
    }

    /// Asks what a person typed, at these versions: more time, fewer rows.
    pub(crate) async fn typed(&self, sql: &str, version: Versions, max_rows: usize) -> Result<Answer, ApiError> {
        let request = SqlRequest { sql: sql.to_owned(), version, max_rows: Some(max_rows), ..SqlRequest::default() };
        let outcome = run(&*self.api, request, TYPED_DEADLINE).await;
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        match &outcome {
            // What is wrong with a statement stays wrong: that is an answer.
            Err(error) if !matches!(error.kind.as_str(), "invalid" | "denied") => drop(failing.insert(TYPED, 0)),
            _ => drop(failing.remove(TYPED)),
        }
        outcome
    }
}

/// A panel's statement.
fn of_panel(sql: &str) -> SqlRequest {
    SqlRequest { sql: sql.to_owned(), max_rows: Some(PANEL_ROWS), ..SqlRequest::default() }
}

async fn run(api: &dyn QueryApi, request: SqlRequest, deadline: Duration) -> Result<Answer, ApiError> {
    let timeout_ms = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
    let request = SqlRequest { timeout_ms: Some(timeout_ms), ..request };
    match tokio::time::timeout(deadline, api.sql(request)).await {
        Ok(outcome) => outcome.map(Answer::new),
        Err(_) => Err(late(deadline)),
    }
}

/// Not a failure: the answer is being made, and kept when it is there.
fn on_its_way() -> ApiError {
    ApiError {
        kind: PENDING.to_owned(),
        message: "This takes longer than a page waits. It is on its way, and shown when the page is renewed."
            .to_owned(),
        hint: None,
    }
}

/// The same of an answer that the page itself goes and gets.
fn coming_soon() -> ApiError {
    ApiError {
        message: "This takes longer than the rest of the page. It is on its way, and comes here by itself.".to_owned(),
        ..on_its_way()
    }
}

fn late(deadline: Duration) -> ApiError {
    ApiError {
        kind: "timeout".to_owned(),
        message: format!("no answer within {:.1} s", deadline.as_secs_f64()),
        hint: Some("choose a shorter range, or run the statement on the SQL page, where it has 30 s".to_owned()),
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

    /// Whether it holds no more than the row of an empty total.
    fn says_nothing(&self) -> bool {
        self.inner.rows.len() < 2
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;
    use telemetry::contract::{AnswerColumn, Answering};

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

    /// Counts what it is asked, holds the second answer back until told, and refuses the third.
    #[derive(Default)]
    struct Counting {
        asked: AtomicUsize,
        release: tokio::sync::Notify,
    }

    impl QueryApi for Counting {
        fn sql(&self, _: SqlRequest) -> Answering<'_> {
            let count = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
            Box::pin(async move {
                if count == 2 {
                    self.release.notified().await;
                }
                if count == 3 {
                    return Err(ApiError { kind: "overloaded".into(), message: "later".into(), hint: None });
                }
                Ok(SqlAnswer { rows: vec![vec![json!(count)]; 2], ..SqlAnswer::default() })
            })
        }
    }

    #[tokio::test]
    async fn a_page_does_without_an_answer_that_takes_long() {
        let api = Arc::new(Counting { asked: AtomicUsize::new(1), ..Counting::default() });
        let asker = Asker::new(api.clone(), Duration::from_millis(20));
        let first = asker.later("p", "all", 0, "one".to_owned()).await;
        assert_eq!(first.outcome.unwrap_err().error.kind, PENDING);
        api.release.notify_one();
        // It is kept for a later visit.
        while asker.later("p", "all", 1, "one".to_owned()).await.outcome.is_err() {}
        assert_eq!(api.asked.load(Ordering::SeqCst), 2, "and asked for once");
    }

    #[tokio::test]
    async fn a_dear_answer_is_shared_until_it_is_old_and_a_refusal_is_not_kept() {
        let api = Arc::new(Counting::default());
        let asker = Asker::new(api.clone(), Duration::from_secs(5));
        let ask = |at_us, sql: &str| {
            let (asker, sql) = (asker.clone(), sql.to_owned());
            async move { asker.kept("p", "all", at_us, sql).await }
        };
        assert!(ask(0, "one").await.outcome.is_ok());
        assert_eq!(ask(KEPT_FOR_US - 1, "two").await.sql, "one", "the statement shown is the one answered");
        assert_eq!(api.asked.load(Ordering::SeqCst), 1);
        // The next answer is on its way, the one before is shown.
        assert_eq!(ask(KEPT_FOR_US, "three").await.sql, "one");
        api.release.notify_one();
        assert_eq!(ask(KEPT_FOR_US, "four").await.sql, "three");
        assert_eq!(api.asked.load(Ordering::SeqCst), 2);
        // Too old to be shown in the meantime: its successor is waited for, and refuses.
        let late = KEPT_FOR_US + STALE_AFTER_US;
        assert!(ask(late, "five").await.outcome.is_err());
        assert!(ask(late, "six").await.outcome.is_ok());
        assert_eq!(api.asked.load(Ordering::SeqCst), 4);
    }
}
