//! How each kind of column is written.

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;
use telemetry::table::{Column, Kind, Table};

use crate::snapshot::stats_columns;

/// Rows per row group: a scan that needs one row reads no more.
pub(super) const ROW_GROUP_ROWS: usize = 128 * 1024;
/// Rows per page.
const PAGE_ROWS: usize = 20_000;
/// Text of statistics is cut to this many bytes.
pub(super) const STATISTICS_BYTES: usize = 64;
/// Zstandard level of files that stay.
const COMPACTED_LEVEL: i32 = 3;
/// Share of look-ups that a Bloom filter lets through in vain.
const BLOOM_FALSE_POSITIVES: f64 = 0.01;

/// Columns that nearly never repeat, so that a dictionary only adds a copy.
const UNREPEATED: [&str; 8] =
    ["span_id", "parent_span_id", "request_id", "body", "body_typed", "events", "links", "exemplars"];
/// Columns that single rows are looked up by: each has a Bloom filter in every row group.
pub const LOOKED_UP: [&str; 2] = ["trace_id", "request_id"];

/// Properties of a new file, in arrival order and lightly compressed: it lives until compaction. Bounds are kept only of what
/// scans prune by, since to find them costs as much as to pack the numbers.
pub(super) fn arrival(table: &'static Table, rows: usize) -> WriterProperties {
    let pruned_by = stats_columns(table);
    let others = table.columns().filter(|column| !pruned_by.contains(column));
    let builder = properties(table, rows, ZstdLevel::default());
    let bare = |builder: WriterPropertiesBuilder, column: &Column| {
        builder.set_column_statistics_enabled(ColumnPath::from(column.name), EnabledStatistics::None)
    };
    others.filter(|column| matches!(column.kind, Kind::Time | Kind::Int)).fold(builder, bare).build()
}

/// Properties of a file that stays: rows in the table's order, compressed with more effort. The column that comes first in that
/// order has bounds for each page, so that a reader who looks for one trace or host reads the page that holds it.
pub(super) fn compacted(table: &'static Table, rows: usize) -> WriterProperties {
    let builder = properties(table, rows, ZstdLevel::try_new(COMPACTED_LEVEL).unwrap_or_default());
    let by_page = |builder: WriterPropertiesBuilder, name: &&str| {
        builder.set_column_statistics_enabled(ColumnPath::from(*name), EnabledStatistics::Page)
    };
    table.order.first().into_iter().fold(builder, by_page).build()
}

fn properties(table: &'static Table, rows: usize, level: ZstdLevel) -> WriterPropertiesBuilder {
    let builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_statistics_truncate_length(Some(STATISTICS_BYTES))
        .set_created_by(concat!("tokenwatt ", env!("CARGO_PKG_VERSION")).to_owned())
        // Gives maps and lists the names that the format prescribes, whatever their builder called them.
        .set_coerce_types(true);
    table.columns().fold(builder, |builder, column| tune(builder, column, rows))
}

fn tune(builder: WriterPropertiesBuilder, column: &Column, rows: usize) -> WriterPropertiesBuilder {
    let path = ColumnPath::from(column.name);
    let builder = match column.kind {
        // Differences of neighbours are small; runs of one value take a few bytes.
        Kind::Time | Kind::Int => plain(builder, &path, Encoding::DELTA_BINARY_PACKED),
        // Bytes of like weight side by side are what makes doubles compress at all.
        Kind::Double => plain(builder, &path, Encoding::BYTE_STREAM_SPLIT),
        Kind::Text if UNREPEATED.contains(&column.name) => plain(builder, &path, Encoding::DELTA_LENGTH_BYTE_ARRAY),
        Kind::Text | Kind::Bool | Kind::Money | Kind::Map | Kind::IntList | Kind::DoubleList => builder,
    };
    let builder = if column.name == "time" {
        builder.set_column_statistics_enabled(path.clone(), EnabledStatistics::Page)
    } else {
        builder
    };
    if LOOKED_UP.contains(&column.name) {
        let distinct_max = rows.min(ROW_GROUP_ROWS) as u64;
        return builder
            .set_column_bloom_filter_fpp(path.clone(), BLOOM_FALSE_POSITIVES)
            .set_column_bloom_filter_max_ndv(path, distinct_max);
    }
    builder
}

fn plain(builder: WriterPropertiesBuilder, path: &ColumnPath, encoding: Encoding) -> WriterPropertiesBuilder {
    builder.set_column_dictionary_enabled(path.clone(), false).set_column_encoding(path.clone(), encoding)
}
