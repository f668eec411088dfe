//! What all queries share, and what each gets for itself.
//!
//! One runtime holds the memory pool, the spill directory and the footers of files read before; a query gets its own
//! session on top, so that nothing one client does is seen by another.

use std::{
    borrow::Cow,
    num::NonZeroUsize,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use datafusion::{
    catalog::CatalogProviderList,
    common::Result,
    config::ExecutionOptions,
    execution::{
        SessionState, SessionStateBuilder,
        memory_pool::{GreedyMemoryPool, MemoryPool, TrackConsumersPool},
        object_store::ObjectStoreUrl,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    optimizer::{Optimizer, OptimizerRule},
    physical_optimizer::{PhysicalOptimizerRule, optimizer::PhysicalOptimizer},
    prelude::SessionConfig,
};
use datafusion_pg_catalog::pg_catalog::oid_type_planner::PgOidTypePlanner;
use object_store::ObjectStore;
use service::Deps;

use crate::{
    cache::Cached,
    config::Config,
    federate::Reading,
    functions,
    plan::{BoundFunctions, BoundedPlanner, OrderedWhole, Watched},
    rollup::{self, Memory},
    scan::prefetch::{Asked, Prefetch},
    system::pg_catalog::Shelf,
    views::View,
};

/// Catalog of every session.
pub(crate) const CATALOG: &str = "tokenwatt";
/// Schema in which names without a schema are looked up.
pub(crate) const SCHEMA: &str = "public";

/// Names under which sessions know the lake's object store; paths in snapshots are relative to it.
const STORE: &str = "lake://tables";
const FAR_STORE: &str = "lake://far";
/// Largest consumers named when memory runs out.
const CONSUMERS_NAMED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4);

/// What all queries of a process share.
#[derive(Clone)]
pub(crate) struct Shared {
    template: SessionState,
    runtime: Arc<RuntimeEnv>,
    shelf: Arc<Shelf>,
    windows: Arc<Memory>,
    /// Configured allocation keys, as their functions take them.
    keys: Arc<str>,
    stores: Stores,
}

/// Where sessions find the lake's files.
#[derive(Clone)]
pub(crate) struct Stores {
    near: ObjectStoreUrl,
    far: ObjectStoreUrl,
    /// Bytes of one scan that the cache in front of the near one has room for.
    scan_bytes_max: u64,
    asked: Arc<Asked>,
}

impl Stores {
    /// Notes that a query names a table.
    pub(crate) fn ask(&self, table: &'static str) {
        self.asked.note(table);
    }

    /// The store for a scan of files of so many bytes: past the cache if it would push out everything else.
    pub(crate) fn of(&self, scan_bytes: u64) -> &ObjectStoreUrl {
        if scan_bytes > self.scan_bytes_max { &self.far } else { &self.near }
    }
}

/// The lake's store, with a cache in front of it if it is behind a network.
fn register(runtime: &RuntimeEnv, config: &Config, reading: &Reading, deps: &Deps) -> Result<Stores> {
    let (near, far) = (ObjectStoreUrl::parse(STORE)?, ObjectStoreUrl::parse(FAR_STORE)?);
    let files = reading.store();
    runtime.register_object_store(far.as_ref(), Arc::clone(&files));
    let asked = Asked::new(Arc::clone(&deps.clock));
    if reading.is_remote() && config.cache_bytes > 0 {
        let store: Arc<dyn ObjectStore> = Arc::new(Cached::new(Arc::clone(&files), config.room(), deps));
        runtime.register_object_store(near.as_ref(), store);
        // Of several, those that nobody asks are to have no requests.
        if let Reading::One(lake) = reading {
            let footers = runtime.cache_manager.get_file_metadata_cache();
            // Past the cache of blocks: a footer is kept parsed, and the blocks around it would push out what queries read.
            Prefetch::new(lake.clone(), files, footers, Arc::clone(&asked)).in_background(deps);
        }
    } else {
        runtime.register_object_store(near.as_ref(), files);
    }
    let room = config.cache_bytes.max(config.cache_disk_bytes);
    // Half of it: the files of two such scans fit.
    Ok(Stores { near, far, scan_bytes_max: room as u64 / 2, asked })
}

impl Shared {
    /// A runtime within the configured limits that reads from the lake, or from several.
    pub(crate) fn new(config: &Config, reading: &Reading, deps: &Deps) -> Result<Shared> {
        let runtime = runtime(config)?;
        let stores = register(&runtime, config, reading, deps)?;
        let template = SessionStateBuilder::new()
            .with_config(settings(config))
            .with_runtime_env(Arc::clone(&runtime))
            .with_default_features()
            .with_query_planner(Arc::new(BoundedPlanner { column_bytes_max: config.column_bytes_max }))
            .with_optimizer_rules(rules(config))
            .with_physical_optimizer_rules(physical_rules())
            .with_type_planner(Arc::new(PgOidTypePlanner))
            .build();
        let shelf = Arc::new(Shelf::new()?);
        let template = with_functions(template, &shelf)?;
        let windows = Arc::new(Memory::of_reader(config.rollup.retention_days.clone()));
        let keys = telemetry::allocation::joined(&config.rollup.cost.allocation_keys).into();
        Ok(Shared { template, runtime, stores, shelf, windows, keys })
    }

    /// The memory that all queries have together.
    pub(crate) fn memory(&self) -> Arc<dyn MemoryPool> {
        Arc::clone(&self.runtime.memory_pool)
    }

    /// The same for one query, which holds no more than `memory` gives it.
    pub(crate) fn within(&self, memory: Arc<dyn MemoryPool>) -> Result<Shared> {
        let runtime = RuntimeEnvBuilder::from_runtime_env(&self.runtime).with_memory_pool(memory).build_arc()?;
        Ok(Shared { runtime, ..self.clone() })
    }

    /// What is remembered of the logs that roll-ups are computed from.
    pub(crate) fn windows(&self) -> &Memory {
        &self.windows
    }

    /// The query of a view as the settings have it: how long windows are kept, which allocation keys there are.
    pub(crate) fn sql(&self, view: &View) -> Cow<'static, str> {
        match self.windows.kept(view.sql) {
            Cow::Borrowed(sql) => rollup::keyed(sql, &self.keys),
            Cow::Owned(sql) => Cow::Owned(rollup::keyed(&sql, &self.keys).into_owned()),
        }
    }

    /// What queries run within.
    pub(crate) fn runtime(&self) -> Arc<RuntimeEnv> {
        Arc::clone(&self.runtime)
    }

    /// How plans are executed.
    pub(crate) fn execution_settings(&self) -> ExecutionOptions {
        self.template.config_options().execution.clone()
    }

    /// Has a session know the functions that all of ours know.
    pub(crate) fn teach(&self, state: &mut SessionState) -> Result<()> {
        use datafusion::execution::FunctionRegistry;
        for function in self.template.scalar_functions().values() {
            state.register_udf(Arc::clone(function))?;
        }
        for function in self.template.aggregate_functions().values() {
            state.register_udaf(Arc::clone(function))?;
        }
        for function in self.template.window_functions().values() {
            state.register_udwf(Arc::clone(function))?;
        }
        Ok(())
    }

    /// Where sessions find the lake's files.
    pub(crate) fn stores(&self) -> &Stores {
        &self.stores
    }

    /// The tables and functions of `pg_catalog`.
    pub(crate) fn shelf(&self) -> &Arc<Shelf> {
        &self.shelf
    }

    /// A session of its own for one query, in which `now()` is `now_us` (microseconds since 1970-01-01 UTC).
    pub(crate) fn session(&self, catalogs: Arc<dyn CatalogProviderList>, now_us: i64) -> SessionState {
        let mut state = SessionStateBuilder::new_from_existing(self.template.clone())
            .with_catalog_list(catalogs)
            .with_runtime_env(Arc::clone(&self.runtime))
            .build();
        let now = UNIX_EPOCH + Duration::from_micros(u64::try_from(now_us).unwrap_or(0));
        state.execution_props_mut().query_execution_start_time = Some(now.into());
        state
    }
}

fn with_functions(mut state: SessionState, shelf: &Shelf) -> Result<SessionState> {
    use datafusion::execution::FunctionRegistry;
    for function in functions::scalar().into_iter().chain(shelf.functions()) {
        state.register_udf(function)?;
    }
    for function in functions::aggregate() {
        state.register_udaf(function)?;
    }
    for function in functions::window() {
        state.register_udwf(function)?;
    }
    Ok(state)
}

/// DataFusion's rules, functions bounded before any of them computes one, each with a look at whether the plan is still wanted and
/// has not grown beyond all bounds.
fn rules(config: &Config) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>> =
        vec![Arc::new(BoundFunctions { column_bytes_max: config.column_bytes_max })];
    rules.extend(Optimizer::new().rules.into_iter().map(|rule| Arc::new(Watched(rule)) as _));
    rules
}

/// DataFusion's rules for how plans are executed, and one that has to see what they made of it, but for the filters that the last of
/// them hands down: how far the first rows of a sort reach.
pub(crate) fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    let filters = rules.iter().rposition(|rule| rule.name().starts_with("FilterPushdown"));
    rules.insert(filters.unwrap_or(rules.len()), Arc::new(OrderedWhole));
    rules
}

/// A tenth of the default: enough to merge the runs of a view over hours.
const SORT_RESERVATION_BYTES: usize = 1 << 20;

fn runtime(config: &Config) -> Result<Arc<RuntimeEnv>> {
    // Not a fair pool: a dashboard's views hold hundreds of small sorts at once, and an equal share each would be too
    // little for the few that need more.
    let pool = TrackConsumersPool::new(GreedyMemoryPool::new(config.memory_bytes), CONSUMERS_NAMED);
    RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(pool))
        .with_metadata_cache_limit(config.footer_cache_bytes)
        .with_max_temp_directory_size(config.spill_bytes_max)
        .build_arc()
}

fn settings(config: &Config) -> SessionConfig {
    let mut settings = SessionConfig::new()
        .with_target_partitions(config.partitions)
        // The catalog has one of its own, which says what tables and columns mean.
        .with_information_schema(false)
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema(CATALOG, SCHEMA);
    let options = settings.options_mut();
    options.execution.time_zone = Some("UTC".to_owned());
    // Each sort sets this much aside for a merge of spilled runs, whether it spills or not.
    options.execution.sort_spill_reservation_bytes = SORT_RESERVATION_BYTES;
    options.sql_parser.default_null_ordering = "nulls_max".to_owned();
    settings
}
