//! One version of one table as DataFusion sees it.
//!
//! The Delta snapshot names every file with its bounds, so a query lists nothing: files that cannot hold a matching row
//! are left out by date and bounds, the rest become one Parquet scan that prunes row groups and pages itself.

mod late;
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

pub(crate) use late::late;

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
        let is_lookup = filters.iter().any(|filter| is_one_of(filter, &POINT_COLUMNS));
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
        let store = self.stores.of(bytes_to_read(schema.fields().len(), projection, filters, &files));
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

/// Roughly, as if all of a file's columns took as much. Next to nothing where Bloom filters leave few row groups: that they are
/// asked costs less than a page. Without one, a look-up reads all values of its column.
fn bytes_to_read(columns: usize, projection: Option<&Vec<usize>>, filters: &[Expr], files: &[Arc<File>]) -> u64 {
    if filters.iter().any(|filter| is_one_of(filter, &lake::LOOKED_UP)) {
        return 0;
    }
    let columns = columns.max(1) as u64;
    let read = projection.map_or(columns, |read| read.len() as u64);
    files.iter().map(|file| file.size / columns * read).sum()
}

/// Whether the filter wants one value of one of the columns.
fn is_one_of(filter: &Expr, columns: &[&str]) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = filter else { return false };
    let (column, value) = match (left.as_ref(), right.as_ref()) {
        (Expr::Column(column), value) | (value, Expr::Column(column)) => (column, value),
        _ => return false,
    };
    columns.contains(&column.name.as_str()) && !value.any_column_refs()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use datafusion::prelude::{col, lit};

    use super::*;

    /// A scan that is taken for small goes through the cache of blocks, and a large one would push everything else out of it.
    #[test]
    fn only_a_bloom_filter_makes_a_look_up_cheap() {
        let file = File {
            path: "requests/a.parquet".to_owned(),
            size: 1_000,
            rows: None,
            date: "2026-07-08".to_owned(),
            modified_ms: 0,
            stats: BTreeMap::new(),
            tags: BTreeMap::new(),
        };
        let files = [Arc::new(file.clone()), Arc::new(file)];
        let bytes = |filter: Expr| bytes_to_read(10, Some(&vec![0, 3]), &[filter], &files);
        for column in lake::LOOKED_UP {
            assert_eq!(bytes(col(column).eq(lit("a"))), 0, "{column}");
            assert_eq!(bytes(lit("a").eq(col(column))), 0, "{column}");
        }
        assert_eq!(bytes(col("trace_id").eq(col("request_id"))), 400);
        assert_eq!(bytes(col("trace_id").not_eq(lit("a"))), 400);
        for column in POINT_COLUMNS.iter().filter(|column| !lake::LOOKED_UP.contains(column)) {
            assert_eq!(bytes(col(*column).eq(lit("a"))), 400, "{column}");
        }
        assert_eq!(bytes_to_read(10, None, &[], &files), 2_000);
    }
}
