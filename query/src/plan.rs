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
mod described;
mod meaning;
mod parse;
mod parameters;
mod range;
mod restrict;
mod several;
mod view;
mod watch;
mod weigh;
mod ordered;
mod what_if;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    str::FromStr,
    sync::Arc,
};

pub(crate) use bound::{BoundFunctions, BoundedPlanner};
pub(crate) use catalog::SYSTEM;
pub(crate) use ordered::OrderedWhole;
pub(crate) use parse::split_version;
pub(crate) use restrict::{Barrier, denies};
pub(crate) use watch::Watched;

use arrow::array::timezone::Tz;
use datafusion::{
    catalog::{CatalogProviderList, TableProvider},
    common::{Result, plan_err},
    execution::context::SQLOptions,
    execution::{FunctionRegistry, SessionState},
    logical_expr::{ExplainFormat, LogicalPlan},
    prelude::DataFrame,
};
use lake::Snapshot;
use parking_lot::Mutex;
use service::{Error, error::Kind};
use telemetry::contract::{AnswerColumn, SqlRequest};

use crate::{
    audit::{Audit, Entry},
    distribute::Spread,
    error,
    execute::{
        Described, Engine,
        running::{Registry, Running},
    },
    federate::{Pins, Reading},
    functions::cancel,
    reader::Reader,
    rollup::{self, Objective, Rollup},
    scan::LakeTable,
    session::Shared,
    system::pg_catalog::Shelf,
    views::View,
};

/// One query's view of the lake: its tables, pinned as they are first named.
pub(crate) struct Scope {
    shared: Shared,
    reading: Reading,
    /// What is seen of each lake, where there are several.
    lakes: Option<Arc<Pins>>,
    running: Arc<Registry>,
    audit: Arc<Audit>,
    reader: Arc<Reader>,
    now_us: i64,
    /// Versions that the request names; the newest of other tables.
    versions: BTreeMap<String, i64>,
    pins: Mutex<BTreeMap<String, Arc<LakeTable>>>,
    views: Mutex<BTreeMap<String, Arc<view::ViewTable>>>,
    /// What answers for the views that have roll-ups.
    served: Mutex<BTreeSet<String>>,
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
    /// What `reader` sees of the engine's lake, at the versions that `request` names. Nothing is pinned yet, and `now()` is now.
    pub(crate) fn new(shared: Shared, engine: &Engine, reader: &Arc<Reader>, request: &SqlRequest) -> Arc<Scope> {
        Arc::new(Scope {
            shared,
            reading: engine.reading.clone(),
            lakes: match &engine.reading {
                Reading::One(_) => None,
                Reading::Several(federation) => Some(Pins::new(federation, request.version.clone())),
            },
            running: Arc::clone(engine.running()),
            audit: Arc::clone(engine.audit()),
            reader: Arc::clone(reader),
            now_us: engine.deps.clock.now_us(),
            versions: request.version.clone(),
            pins: Mutex::default(),
            views: Mutex::default(),
            served: Mutex::default(),
        })
    }

    /// Plans one read-only statement.
    ///
    /// # Errors
    /// A plan error that says what is wrong with the statement, or what reading the lake gave.
    pub(crate) async fn plan(self: &Arc<Self>, request: &SqlRequest, spread: Option<&Spread>) -> Result<Planned> {
        let (mut state, plan) = self.statement(request).await?;
        if spread.is_some() {
            Spread::prepare(&mut state);
        }
        let plan = parameters::bind(plan, &request.params)?;
        let columns = meaning::columns(&plan);
        let plan = state.optimize(&plan)?;
        Ok(Planned { plan, state, columns })
    }

    /// Says what one read-only statement would answer and which parameters it has. Those without a value are NULL meanwhile.
    ///
    /// # Errors
    /// As [`Scope::plan`].
    pub(crate) async fn describe(self: &Arc<Self>, request: &SqlRequest) -> Result<Described> {
        let (state, plan) = self.statement(request).await?;
        let parameters = parameters::of(&plan);
        let plan = parameters::bind_all(plan, &parameters, &request.params)?;
        let columns = meaning::columns(&plan);
        let plan = state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?;
        Ok(Described { schema: Arc::clone(plan.schema().inner()), columns, parameters })
    }

    async fn statement(self: &Arc<Self>, request: &SqlRequest) -> Result<(SessionState, LogicalPlan)> {
        known(&request.version)?;
        let state = self.asked(request.time_zone.as_deref())?;
        let plan = state.statement_to_plan(parse::statement(&request.sql)?).await?;
        watch::count(&plan)?;
        // before parameters are filled in: that takes the statement out of a PREPARE
        read_only().verify_plan(&plan)?;
        explained(&plan, &self.reader)?;
        Ok((state, plan))
    }

    /// The snapshots read so far, by the name they were asked under, which is that of the lake and the table where there are several.
    /// Of a table that it may not read itself, a reader is told none, though a view may have read it.
    pub(crate) fn snapshots(&self) -> BTreeMap<String, Arc<Snapshot>> {
        let mut snapshots = match &self.lakes {
            Some(lakes) => lakes.snapshots(),
            None => {
                let pins = self.pins.lock();
                pins.iter().map(|(name, table)| (name.clone(), Arc::clone(table.snapshot()))).collect()
            }
        };
        snapshots.retain(|_, snapshot| !denies(&self.reader, |column| snapshot.table.column(column).is_some()));
        snapshots
    }

    /// Who asks.
    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Which rows answer: windows of roll-ups and through when, else raw rows.
    pub(crate) fn served_by(&self) -> String {
        let served = self.served.lock();
        if served.is_empty() { rollup::RAW_ROWS.to_owned() } else { Vec::from_iter(served.clone()).join("; ") }
    }

    /// What of the lakes is not in the answer; `None` where it is whole.
    pub(crate) fn notice(&self) -> Option<String> {
        self.lakes.as_ref()?.notice()
    }

    /// Whether it reads several lakes.
    pub(crate) fn is_of_several(&self) -> bool {
        self.lakes.is_some()
    }

    /// Whether a lake was lost since it was pinned, so that the query may be asked again without it.
    pub(crate) fn has_lost_a_lake(&self) -> bool {
        self.lakes.as_ref().is_some_and(|lakes| lakes.has_lost_one())
    }

    /// What `now()` is, microseconds since 1970-01-01 UTC.
    pub(crate) fn now_us(&self) -> i64 {
        self.now_us
    }

    /// The tables and functions of `pg_catalog`.
    pub(crate) fn shelf(&self) -> Arc<Shelf> {
        Arc::clone(self.shared.shelf())
    }

    /// All there is, whatever the reader may see of it.
    pub(crate) fn everything(self: &Arc<Self>) -> Arc<dyn CatalogProviderList> {
        catalog::Catalogs::all(self)
    }

    /// The queries that run now and that the reader may see.
    pub(crate) fn running(&self) -> Vec<Arc<Running>> {
        self.running.list().into_iter().filter(|running| self.reader.may_watch(&running.reader)).collect()
    }

    /// The queries that have ended and that the reader may see.
    pub(crate) fn ended(&self) -> Vec<Arc<Entry>> {
        self.audit.list(&self.reader)
    }

    /// The newest version of a table in each lake, by the lake's name where there are several, without pinning it: for tables about
    /// tables.
    pub(crate) async fn newest(&self, table: &str) -> Result<Vec<(Option<String>, Arc<Snapshot>)>> {
        self.reading.newest(table).await.map_err(error::from_lake)
    }

    /// The session of the reader's statement, which sees what the reader may.
    fn asked(self: &Arc<Self>, time_zone: Option<&str>) -> Result<SessionState> {
        let mut state = self.shared.session(catalog::Catalogs::seen(self), self.now_us);
        state.register_udf(cancel::function(&self.running, &self.reader))?;
        state.register_udtf(what_if::NAME, Arc::new(what_if::WhatIf::new(self)));
        if let Some(zone) = time_zone {
            if Tz::from_str(zone).is_err() {
                return plan_err!(
                    "{zone} is no time zone; give a name such as Europe/Dublin, or an offset such as +01:00"
                );
            }
            state.config_mut().options_mut().execution.time_zone = Some(zone.to_owned());
        }
        // Which files a scan would read depends on bounds that others' rows have a part in.
        state.config_mut().options_mut().explain.logical_plan_only = !self.reader.sees_everything();
        Ok(state)
    }

    /// The session of our own views: they see everything, and the reader sees of them what it may.
    fn session(self: &Arc<Self>) -> SessionState {
        self.shared.session(catalog::Catalogs::all(self), self.now_us)
    }

    /// The table of that name, of the lake or of all; `None` if there is no such table.
    async fn provider(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match &self.lakes {
            Some(lakes) => self.table_of_several(lakes, name),
            None => Ok(self.table(name).await?.map(|table| table as Arc<dyn TableProvider>)),
        }
    }

    /// The table of that name in the only lake, the same version each time; `None` if there is no such table, or several lakes.
    async fn table(&self, name: &str) -> Result<Option<Arc<LakeTable>>> {
        if let Some(pinned) = self.pins.lock().get(name) {
            return Ok(Some(Arc::clone(pinned)));
        }
        let (table, version) = split_version(name);
        let Reading::One(lake) = &self.reading else { return Ok(None) };
        if telemetry::table::by_name(table).is_none() {
            return Ok(None);
        }
        let version = version.or_else(|| self.versions.get(table).copied());
        let snapshot = lake.snapshot(table, version).await.map_err(error::from_lake)?;
        let opened = Arc::new(LakeTable::new(snapshot, self.shared.stores().clone()));
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
        if let Some(lakes) = &self.lakes {
            let planned = self.view_of_several(view, lakes).await?;
            return Ok(self.kept(view.name.to_owned(), planned));
        }
        let sql = match rollup::of(view) {
            Some(rollup) => Cow::Owned(self.windows(rollup).await?),
            None if rollup::judges(view) => Cow::Owned(rollup::judging(view, &self.objectives().await?)),
            None => self.shared.sql(view),
        };
        let plan = self.analyzed(&sql).await?;
        Ok(self.kept(view.name.to_owned(), view::ViewTable::new(view, plan)))
    }

    /// The view of a roll-up from raw rows alone.
    async fn raw_view(self: &Arc<Self>, view: &'static View) -> Result<Arc<view::ViewTable>> {
        let name = format!("raw.{}", view.name);
        if let Some(planned) = self.views.lock().get(&name) {
            return Ok(Arc::clone(planned));
        }
        let planned = view::ViewTable::new(view, self.analyzed(&self.shared.sql(view)).await?);
        Ok(self.kept(
            name,
            match &self.lakes {
                Some(lakes) => planned.shared(self.plain_share(lakes)),
                None => planned,
            },
        ))
    }

    /// The statement of a view of ours.
    async fn analyzed(self: &Arc<Self>, sql: &str) -> Result<LogicalPlan> {
        let state = self.session();
        let plan = state.statement_to_plan(parse::statement(sql)?).await?;
        state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})
    }

    fn kept(&self, name: String, planned: view::ViewTable) -> Arc<view::ViewTable> {
        Arc::clone(self.views.lock().entry(name).or_insert(Arc::new(planned)))
    }

    /// The query that takes windows from a roll-up where they are right, and raw rows elsewhere. Windows are pinned first, so no
    /// source is older than they are.
    async fn windows(self: &Arc<Self>, rollup: &'static Rollup) -> Result<String> {
        let mut pinned = Vec::with_capacity(rollup.sources.len() + 1);
        for name in rollup.tables() {
            pinned.extend(self.table(name).await?.map(|table| Arc::clone(table.snapshot())));
        }
        let Reading::One(lake) = &self.reading else { return Ok(rollup::shape(rollup)) };
        let memory = (self.shared.windows(), lake);
        let answer = rollup::answer(rollup, &pinned, memory, self.now_us).await.map_err(error::from_lake)?;
        self.served.lock().insert(answer.served_by);
        Ok(answer.sql)
    }

    /// The objectives of table `slos`, read once for each of its versions.
    async fn objectives(self: &Arc<Self>) -> Result<Arc<[Objective]>> {
        let Some(table) = self.table(telemetry::table::SLOS.name).await? else { return Ok(Arc::default()) };
        let (version, memory) = (table.snapshot().version, self.shared.windows());
        if table.snapshot().files.is_empty() {
            return Ok(Arc::default());
        }
        if let Some(known) = memory.objectives(version) {
            return Ok(known);
        }
        let state = self.session();
        let plan = state.statement_to_plan(parse::statement(rollup::OBJECTIVES_SQL)?).await?;
        let batches = DataFrame::new(state, plan).collect().await?;
        let objectives: Arc<[Objective]> = rollup::objectives(&batches).map_err(error::from_lake)?.into();
        memory.remember(version, Arc::clone(&objectives));
        Ok(objectives)
    }
}

/// Versions are of tables: a name that is none would pin nothing in silence.
fn known(versions: &BTreeMap<String, i64>) -> Result<()> {
    for (name, version) in versions {
        let table = split_version(name).0;
        let table = table.rsplit_once('.').map_or(table, |(_, table)| table);
        if telemetry::table::by_name(table).is_none() {
            return plan_err!(
                "`version` names {name}, which is no table; take the names of an earlier answer's `version`"
            );
        }
        // An answer names the version of a table that nobody had written to, too.
        if *version < -1 {
            return plan_err!("`version` of {name} is a whole number from 0 on, or -1 for none, not {version}");
        }
    }
    Ok(())
}

fn read_only() -> SQLOptions {
    SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false)
}

/// A plan with its figures tells how many rows of others a scan went through, and a tree which of their files it would read.
fn explained(plan: &LogicalPlan, reader: &Reader) -> Result<()> {
    let tells = match plan {
        LogicalPlan::Analyze(_) => true,
        LogicalPlan::Explain(explain) => explain.verbose || explain.explain_format == ExplainFormat::Tree,
        _ => false,
    };
    if tells && !reader.sees_everything() {
        let message = "EXPLAIN with ANALYZE, VERBOSE or FORMAT TREE tells of everybody's rows; this reader does not see all of them";
        return Err(error::from_lake(Error::new(Kind::Denied, message).with_hint("EXPLAIN alone shows the plan")));
    }
    Ok(())
}
