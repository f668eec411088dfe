//! The order of rows, where all files of a scan have the table's: it is kept as long as files that follow each other in a stream
//! do not overlap.

use std::sync::Arc;

use arrow::{compute::SortOptions, datatypes::SchemaRef};
use datafusion::{
    common::{Statistics, stats::Precision},
    datasource::{
        listing::PartitionedFile,
        physical_plan::{FileGroup, FileScanConfig},
    },
    physical_expr::{LexOrdering, PhysicalSortExpr, expressions::Column},
};
use lake::{ColumnStats, File};
use telemetry::table::Table;

use super::{partitioned, prune};

/// Streams that may be open so that their order is kept. More cost more memory than a sort or a hash table would.
const STREAMS_MAX: usize = 16;

/// As the lake sorts: ascending, unknown values last.
const ASCENDING: SortOptions = SortOptions { descending: false, nulls_first: false };

/// Files in streams whose rows are in order.
pub(super) struct Ordered {
    pub(super) groups: Vec<FileGroup>,
    pub(super) ordering: LexOrdering,
}

/// The files in as few ordered streams as their bounds allow, at least `streams`; `None` if the rows are in no known order, if it
/// would take too many streams, or if nobody can make use of it because the column that comes first is not read.
pub(super) fn ordered(
    table: &Table,
    files: &[Arc<File>],
    schema: &SchemaRef,
    projection: Option<&Vec<usize>>,
    streams: usize,
) -> Option<Ordered> {
    let first = schema.index_of(table.order.first()?).ok()?;
    let is_read = projection.is_none_or(|columns| columns.contains(&first));
    if !is_read || !files.iter().all(|file| file.is_sorted(table)) {
        return None;
    }
    let keys = table.order.iter().take_while(|name| files.iter().all(|file| is_bounded(file, name)));
    let keys = keys.filter_map(|name| {
        let column = Column::new(name, schema.index_of(name).ok()?);
        Some(PhysicalSortExpr::new(Arc::new(column), ASCENDING))
    });
    let ordering = LexOrdering::new(keys)?;
    let files: Vec<_> = files.iter().map(|file| bounded(file, schema)).collect();
    let groups = [FileGroup::new(files)];
    let split = FileScanConfig::split_groups_by_statistics_with_target_partitions(schema, &groups, &ordering, streams);
    let groups = split.ok()?;
    (groups.len() <= STREAMS_MAX.max(streams)).then_some(Ordered { groups, ordering })
}

/// Whether both bounds hold for every row: unknown values have none.
fn is_bounded(file: &File, column: &str) -> bool {
    let known = |stats: &ColumnStats| stats.nulls == Some(0) && stats.min.is_some() && stats.max.is_some();
    file.stats.get(column).is_some_and(known)
}

/// The file with its bounds, which may be wider than its values.
fn bounded(file: &File, schema: &SchemaRef) -> PartitionedFile {
    let mut statistics = Statistics::new_unknown(schema);
    for (field, column) in schema.fields().iter().zip(&mut statistics.column_statistics) {
        let Some(stats) = file.stats.get(field.name()) else { continue };
        let bound = |bound: &Option<_>| match bound {
            Some(value) => Precision::Inexact(prune::scalar(value, field.data_type())),
            None => Precision::Absent,
        };
        column.min_value = bound(&stats.min);
        column.max_value = bound(&stats.max);
    }
    partitioned(file).with_statistics(Arc::new(statistics))
}
