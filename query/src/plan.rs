//! From SQL to a physical plan that can only read.
//!
//! ```text
//! parse (one statement, versions) ─► resolve (tables pinned, views planned) ─► verify (read-only) ─► optimize
//! ```
//!
//! Invariants:
//! 1. A query sees one version of each table, however often it names it.
//! 2. Whatever the front, a plan that writes, defines or sets anything is refused before it is optimized.

mod bound;
mod catalog;
mod meaning;
mod parse;
mod range;
mod view;

use std::{collections::BTreeMap, sync::Arc};

pub(crate) use bound::{BoundFunctions, BoundedPlanner, StopPlanning};

use datafusion::{
    common::{ParamValues, Result, ScalarValue},
    execution::SessionState,
    execution::context::SQLOptions,
    logical_expr::LogicalPlan,
};
use lake::{Lake, Snapshot};
use parking_lot::Mutex;
use serde_json::Value;
use telemetry::contract::{AnswerColumn, SqlRequest};

use crate::{
    error,
    execute::running::{Registry, Running},
    scan::LakeTable,
    session::Shared,
    views::View,
};

/// One query's view of the lake: its tables, pinned as they are first named.
pub(crate) struct Scope {
    shared: Shared,
    lake: Lake,
    running: Arc<Registry>,
    now_us: i64,
    pins: Mutex<BTreeMap<String, Arc<LakeTable>>>,
    views: Mutex<BTreeMap<&'static str, Arc<view::ViewTable>>>,
}

/// A statement ready to run.
pub(crate) struct Planned {
    /// The optimized logical plan.
    pub(crate) plan: LogicalPlan,
    /// The session it runs in.
    pub(crate) state: SessionState,
    /// What its columns mean.
    pub(crate) columns: Vec<AnswerColumn>,
}

impl Scope {
    /// A scope in which nothing is pinned yet and `now()` is `now_us`.
    pub(crate) fn new(shared: Shared, lake: Lake, running: Arc<Registry>, now_us: i64) -> Arc<Scope> {
        Arc::new(Scope { shared, lake, running, now_us, pins: Mutex::default(), views: Mutex::default() })
    }

    /// Plans one read-only statement.
    ///
    /// # Errors
    /// A plan error that says what is wrong with the statement, or what reading the lake gave.
    pub(crate) async fn plan(self: &Arc<Self>, request: &SqlRequest) -> Result<Planned> {
        let state = self.session();
        let plan = state.statement_to_plan(parse::statement(&request.sql)?).await?;
        // before parameters are filled in: that takes the statement out of a PREPARE
        read_only().verify_plan(&plan)?;
        let plan = plan.with_param_values(parameters(&request.params)?)?;
        let columns = meaning::columns(&plan);
        let plan = state.optimize(&plan)?;
        Ok(Planned { plan, state, columns })
    }

    /// The snapshots read so far, by the name they were asked under.
    pub(crate) fn snapshots(&self) -> BTreeMap<String, Arc<Snapshot>> {
        self.pins.lock().iter().map(|(name, table)| (name.clone(), Arc::clone(table.snapshot()))).collect()
    }

    /// What `now()` is, microseconds since 1970-01-01 UTC.
    pub(crate) fn now_us(&self) -> i64 {
        self.now_us
    }

    /// The queries that run now.
    pub(crate) fn running(&self) -> Vec<Arc<Running>> {
        self.running.list()
    }

    /// The newest version of a table, without pinning it: for tables about tables.
    pub(crate) async fn newest(&self, table: &str) -> Result<Arc<Snapshot>> {
        self.lake.snapshot(table, None).await.map_err(error::from_lake)
    }

    fn session(self: &Arc<Self>) -> SessionState {
        self.shared.session(catalog::Catalogs::of(self), self.now_us)
    }

    /// The table of that name, the same version each time; `None` if there is no such table.
    async fn table(&self, name: &str) -> Result<Option<Arc<LakeTable>>> {
        if let Some(pinned) = self.pins.lock().get(name) {
            return Ok(Some(Arc::clone(pinned)));
        }
        let (table, version) = parse::split_version(name);
        if telemetry::table::by_name(table).is_none() {
            return Ok(None);
        }
        let snapshot = self.lake.snapshot(table, version).await.map_err(error::from_lake)?;
        let opened = Arc::new(LakeTable::new(snapshot, self.shared.store().clone()));
        let mut pins = self.pins.lock();
        Ok(Some(Arc::clone(pins.entry(name.to_owned()).or_insert(opened))))
    }
}

impl Scope {
    /// The view, planned once in a query however many others read it.
    async fn view(self: &Arc<Self>, view: &'static View) -> Result<Arc<view::ViewTable>> {
        if let Some(planned) = self.views.lock().get(view.name) {
            return Ok(Arc::clone(planned));
        }
        let state = self.session();
        let plan = state.statement_to_plan(parse::statement(view.sql)?).await?;
        let plan = state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?;
        let planned = Arc::new(view::ViewTable::new(view, plan));
        Ok(Arc::clone(self.views.lock().entry(view.name).or_insert(planned)))
    }
}

fn read_only() -> SQLOptions {
    SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false)
}

fn parameters(given: &BTreeMap<String, Value>) -> Result<ParamValues> {
    let values = given.iter().map(|(name, value)| Ok((name.as_str(), parameter(name, value)?)));
    Ok(ParamValues::from(values.collect::<Result<Vec<_>>>()?))
}

fn parameter(name: &str, value: &Value) -> Result<ScalarValue> {
    match value {
        Value::Null => Ok(ScalarValue::Null),
        Value::Bool(truth) => Ok(ScalarValue::Boolean(Some(*truth))),
        Value::String(text) => Ok(ScalarValue::Utf8(Some(text.clone()))),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Ok(ScalarValue::Int64(Some(whole))),
            (None, number) => Ok(ScalarValue::Float64(number)),
        },
        Value::Array(_) | Value::Object(_) => {
            datafusion::common::plan_err!("parameter ${name} must be a text, a number, true, false or null")
        }
    }
}
