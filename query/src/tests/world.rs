//! A lake in a temporary directory, rows to put in it, and a query service over it.

use std::{collections::BTreeMap, sync::Arc};

use arrow::{array::RecordBatch, datatypes::Schema};
use lake::{Entry, FileAdd, Lake, Outcome};
use object_store::memory::InMemory;
use parking_lot::Mutex;
use serde_json::Value;
use service::Deps;
use telemetry::{
    contract::{ApiError, QueryApi, SqlAnswer, SqlRequest},
    table::Table,
};

use crate::{Config, Query};

/// Noon of 2026-11-29 UTC, the start of a minute, in microseconds.
pub(super) const NOON: i64 = 1_795_953_600_000_000;

/// The date of [`NOON`].
const DATE: &str = "2026-11-29";

pub(super) struct World {
    pub(super) query: Query,
    pub(super) lake: Lake,
    committed: Mutex<BTreeMap<&'static str, u64>>,
    metrics: service::metrics::Registry,
    _directory: Option<tempfile::TempDir>,
}

impl World {
    pub(super) async fn new() -> World {
        World::with(Config::default()).await
    }

    pub(super) async fn with(config: Config) -> World {
        World::of(config, Deps::system()).await
    }

    /// A world with a clock of its own.
    pub(super) async fn at(deps: Deps) -> World {
        World::of(Config::default(), deps).await
    }

    /// With parts of the caller's choice, such as a clock.
    pub(super) async fn of(config: Config, deps: Deps) -> World {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().to_str().expect("a path").to_owned();
        let lake = Lake::open(&place, &deps).await.expect("a lake");
        World { _directory: Some(directory), ..World::on(lake, config, deps).await }
    }

    /// Over a lake of the caller's making.
    pub(super) async fn on(lake: Lake, config: Config, deps: Deps) -> World {
        let metrics = deps.metrics.clone();
        let query = crate::build(config, lake.clone(), deps).await.expect("a service");
        World { query, lake, committed: Mutex::default(), metrics, _directory: None }
    }

    /// On a store that is no directory.
    pub(super) async fn remote(config: Config) -> World {
        let deps = Deps::system();
        let lake = Lake::open_on(Arc::new(InMemory::new()), &deps).await.expect("a lake");
        World::on(lake, config, deps).await
    }

    /// The value of a series on `/metrics`, written as it is there.
    pub(super) fn counted(&self, series: &str) -> Option<f64> {
        let text = self.metrics.render();
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
        line.split(' ').next()?.parse().ok()
    }

    /// Commits the rows as one file and gives the table's version.
    pub(super) async fn write(&self, table: &'static Table, rows: &[Value]) -> i64 {
        self.write_tagged(table, rows, None).await
    }

    /// The same, with the minutes of its late rows as the collector lists them.
    pub(super) async fn write_tagged(&self, table: &'static Table, rows: &[Value], late: Option<String>) -> i64 {
        let name = self.next_name(table);
        let mut file = self.lake.write(table, DATE, &name, &[batch(table, rows)]).await.expect("written");
        file.tags.extend(late.map(|minutes| ("minutes".to_owned(), minutes)));
        self.commit(table, file).await
    }

    /// Like [`World::write`], of rows of another day.
    pub(super) async fn write_on(&self, date: &str, table: &'static Table, rows: &[Value]) -> i64 {
        let name = self.next_name(table);
        let file = self.lake.write(table, date, &name, &[batch(table, rows)]).await.expect("written");
        self.commit(table, file).await
    }

    /// Like [`World::write`], of rows that are in the table's order, which the file says.
    pub(super) async fn write_sorted(&self, table: &'static Table, rows: &[Value]) -> i64 {
        let (name, rows) = (self.next_name(table), [batch(table, rows)]);
        let file = self.lake.write_sorted(table, DATE, &name, rows.into_iter()).await.expect("written");
        self.commit(table, file).await
    }

    fn next_name(&self, table: &Table) -> String {
        format!("test-{}.parquet", self.committed.lock().get(table.name).copied().unwrap_or(0))
    }

    async fn commit(&self, table: &'static Table, file: FileAdd) -> i64 {
        let from = self.committed.lock().get(table.name).copied().unwrap_or(0);
        let entry = Entry { journal: "test".to_owned(), table: table.name, from, to: from + 1, adds: vec![file] };
        let Outcome::Committed { version } = self.lake.commit(entry).await.expect("committed") else {
            panic!("fenced")
        };
        self.committed.lock().insert(table.name, from + 1);
        version
    }

    pub(super) async fn ask(&self, sql: &str) -> SqlAnswer {
        self.try_ask(sql).await.unwrap_or_else(|error| panic!("{error:?} from {sql}"))
    }

    pub(super) async fn try_ask(&self, sql: &str) -> Result<SqlAnswer, ApiError> {
        self.query.sql(SqlRequest { sql: sql.to_owned(), ..SqlRequest::default() }).await
    }

    pub(super) async fn rows(&self, sql: &str) -> Vec<Vec<Value>> {
        self.ask(sql).await.rows
    }
}

/// The rows as a batch with the columns that any of them has.
pub(super) fn batch(table: &'static Table, rows: &[Value]) -> RecordBatch {
    let named = |name: &str| rows.iter().any(|row| row.get(name).is_some());
    let whole = table.schema();
    let fields: Vec<_> = whole.fields().iter().filter(|field| named(field.name())).cloned().collect();
    let known = rows.iter().filter_map(Value::as_object).flat_map(|row| row.keys());
    known.for_each(|name| assert!(whole.field_with_name(name).is_ok(), "{name} is no column of {}", table.name));
    let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
    let mut reader = arrow::json::ReaderBuilder::new(Arc::new(Schema::new(fields)))
        .with_batch_size(rows.len())
        .build(text.as_bytes())
        .expect("a reader");
    reader.next().expect("rows").expect("readable")
}
