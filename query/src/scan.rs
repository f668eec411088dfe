//! One version of one table as DataFusion sees it.
//!
//! The Delta snapshot names every file with its bounds, so a query lists nothing: files that cannot hold a matching row
//! are left out by date and bounds, the rest become one Parquet scan that prunes row groups and pages itself.

mod order;
pub(crate) mod prefetch;
mod prune;
mod statistics;

use std::{fmt, sync::Arc};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, TableProvider},
    common::{DFSchema, Result, ScalarValue, Statistics, config::TableParquetOptions},
    datasource::source::DataSourceExec,
    datasource::{
        listing::PartitionedFile,
        physical_plan::{
            FileGroup, FileScanConfig, FileScanConfigBuilder, ParquetSource, parquet::CachedParquetFileReaderFactory,
        },
        table_schema::TableSchema,
    },
    execution::{object_store::ObjectStoreUrl, runtime_env::RuntimeEnv},
    logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableType, utils::conjunction},
    physical_plan::{ExecutionPlan, empty::EmptyExec},
};
use lake::{File, Snapshot};
use object_store::{ObjectMeta, path::Path};
use telemetry::table::{PARTITION, Table};

use crate::session::Stores;

/// Bytes read from a file's end in the hope that they hold its whole footer.
const FOOTER_BYTES: usize = 64 * 1024;

/// Files below this have so few pages that finding out which to skip costs more than reading them all.
const PAGED_BYTES_MIN: u64 = 4 << 20;

/// Columns whose equality picks few rows: there, rows are filtered while decoding.
const POINT_COLUMNS: [&str; 5] = ["trace_id", "span_id", "request_span_id", "parent_span_id", "request_id"];

/// A table at one version.
pub(crate) struct LakeTable {
    snapshot: Arc<Snapshot>,
    schema: TableSchema,
    stores: Stores,
}

impl LakeTable {
    /// The snapshot's table, read from the stores that the session knows.
    pub(crate) fn new(snapshot: Arc<Snapshot>, stores: Stores) -> LakeTable {
        stores.ask(snapshot.table.name);
        let partition = Arc::new(Field::new(PARTITION, DataType::Utf8, false));
        let schema =
            TableSchema::builder(file_schema(snapshot.table)).with_table_partition_cols(vec![partition]).build();
        LakeTable { snapshot, schema, stores }
    }

    /// The version it shows.
    pub(crate) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    fn source(
        &self,
        state: &dyn Session,
        store: &ObjectStoreUrl,
        filters: &[Expr],
        files: &[Arc<File>],
    ) -> Result<ParquetSource> {
        let mut options =
            TableParquetOptions { global: state.config_options().execution.parquet.clone(), ..Default::default() };
        let is_lookup = filters.iter().any(picks_few_rows);
        options.global.pushdown_filters = is_lookup;
        options.global.reorder_filters = is_lookup;
        options.global.enable_page_index = files.iter().any(|file| file.size > PAGED_BYTES_MIN);
        let env = state.runtime_env();
        let footers = env.cache_manager.get_file_metadata_cache();
        let reader = CachedParquetFileReaderFactory::new(env.object_store(store)?, footers);
        Ok(ParquetSource::new(self.schema.clone())
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(Arc::new(reader))
            .with_metadata_size_hint(FOOTER_BYTES))
    }

    /// Roughly, as if all columns took as much; next to nothing where few rows are picked.
    fn bytes_to_read(&self, projection: Option<&Vec<usize>>, filters: &[Expr], files: &[Arc<File>]) -> u64 {
        if filters.iter().any(picks_few_rows) {
            return 0;
        }
        let all = self.schema.table_schema().fields().len().max(1);
        let read = projection.map_or(all, Vec::len);
        files.iter().map(|file| file.size / all as u64 * read as u64).sum()
    }

    /// Files that may hold a row the filters let through, newest first: a `LIMIT` then stops early on what people ask for.
    fn files(&self, state: &dyn Session, filters: &[Expr]) -> Result<Vec<Arc<File>>> {
        let mut files = match conjunction(filters.to_vec()) {
            None => self.snapshot.files.clone(),
            Some(predicate) => {
                let schema = DFSchema::try_from(Arc::clone(self.schema.table_schema()))?;
                let predicate = state.create_physical_expr(predicate, &schema)?;
                prune::keep(&self.snapshot.files, predicate, self.schema.table_schema())
            }
        };
        files.sort_by_key(|file| std::cmp::Reverse(file.newest_time_us()));
        Ok(files)
    }
}

#[async_trait]
impl TableProvider for LakeTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.schema.table_schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let files = self.files(state, filters)?;
        if files.is_empty() {
            let schema = match projection {
                Some(columns) => Arc::new(self.schema.table_schema().project(columns)?),
                None => self.schema(),
            };
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        let (schema, streams) = (self.schema.table_schema(), state.config().target_partitions());
        let (groups, ordering) = match order::ordered(self.snapshot.table, &files, schema, projection, streams) {
            Some(ordered) => (ordered.groups, vec![ordered.ordering]),
            None => (groups(&files, streams), Vec::new()),
        };
        let store = self.stores.of(self.bytes_to_read(projection, filters, &files));
        let source = Arc::new(self.source(state, store, filters, &files)?);
        let config = FileScanConfigBuilder::new(store.clone(), source)
            .with_file_groups(groups)
            .with_output_ordering(ordering)
            .with_statistics(statistics::of(&files, schema))
            .with_projection_indices(projection.cloned())?
            .with_limit(if filters.is_empty() { limit } else { None })
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(statistics::of(&self.snapshot.files, self.schema.table_schema()))
    }
}

impl fmt::Debug for LakeTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LakeTable({} version {})", self.snapshot.table.name, self.snapshot.version)
    }
}

/// A scan from elsewhere, reading through what this process keeps of files; `None` for any other operator.
pub(crate) fn reopened(plan: &Arc<dyn ExecutionPlan>, env: &RuntimeEnv) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(config) = plan.downcast_ref::<DataSourceExec>().and_then(|scan| scan.data_source().downcast_ref()) else {
        return Ok(None);
    };
    let config: &FileScanConfig = config;
    let Some(source) = config.file_source().downcast_ref::<ParquetSource>() else { return Ok(None) };
    let footers = env.cache_manager.get_file_metadata_cache();
    let reader = CachedParquetFileReaderFactory::new(env.object_store(&config.object_store_url)?, footers);
    let source =
        source.clone().with_parquet_file_reader_factory(Arc::new(reader)).with_metadata_size_hint(FOOTER_BYTES);
    let config = FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source)).build();
    Ok(Some(DataSourceExec::from_data_source(config)))
}

/// The table's columns as a scan gives them: text as views, which compare and group without copying.
fn file_schema(table: &Table) -> SchemaRef {
    let declared = table.schema();
    let fields = declared.fields().iter().map(|field| {
        let kind = match field.data_type() {
            DataType::Utf8 => DataType::Utf8View,
            other => other.clone(),
        };
        Field::new(field.name(), kind, field.is_nullable())
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Deals the files round-robin, so that each group stays newest first and none is much longer than another.
fn groups(files: &[Arc<File>], count: usize) -> Vec<FileGroup> {
    let count = count.clamp(1, files.len().max(1));
    let mut groups = vec![Vec::with_capacity(files.len() / count + 1); count];
    for (index, file) in files.iter().enumerate() {
        groups[index % count].push(partitioned(file));
    }
    groups.into_iter().map(FileGroup::new).collect()
}

fn partitioned(file: &File) -> PartitionedFile {
    let modified =
        std::time::UNIX_EPOCH + std::time::Duration::from_millis(u64::try_from(file.modified_ms).unwrap_or(0));
    let meta = ObjectMeta {
        location: Path::from(file.path.as_str()),
        last_modified: modified.into(),
        size: file.size,
        e_tag: None,
        version: None,
    };
    let date = ScalarValue::Utf8(Some(file.date.clone()));
    PartitionedFile::new_from_meta(meta).with_partition_values(vec![date])
}

fn picks_few_rows(filter: &Expr) -> bool {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            [left, right].into_iter().any(|side| match side.as_ref() {
                Expr::Column(column) => POINT_COLUMNS.contains(&column.name.as_str()),
                _ => false,
            })
        }
        _ => false,
    }
}
