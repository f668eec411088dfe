//! Rows of one table on their way to Parquet: Arrow builders that fill up column by column.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    ArrayBuilder, ArrayRef, BooleanBuilder, Decimal128Builder, Float64Builder, Int64Builder, ListBuilder, MapBuilder,
    MapFieldNames, RecordBatch, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use service::error::{Error, Result};
use telemetry::table::{Kind, Table};

use super::runs::Runs;

/// Rows of one table and one date.
///
/// A row is written by setting some of its columns and then calling [`Rows::end`]; a column that was not set is NULL. Such
/// gaps cost nothing per row: a column catches up when it is next set.
pub struct Rows {
    schema: SchemaRef,
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
    source: Source,
}

/// From where a row is: rows of one group have the same resource, rows of one pattern the same texts too. 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Number of the group.
    pub group: u64,
    /// Number of the pattern.
    pub pattern: u64,
}

enum Column {
    Text(Box<Runs>),
    Int(Int64Builder),
    Double(Float64Builder),
    Bool(BooleanBuilder),
    Time(TimestampMicrosecondBuilder),
    Money(Decimal128Builder),
    Map(Box<MapBuilder<StringBuilder, StringBuilder>>),
    IntList(Box<ListBuilder<Int64Builder>>),
    DoubleList(Box<ListBuilder<Float64Builder>>),
}

impl Rows {
    /// No rows of `table` yet.
    pub fn new(table: &'static Table) -> Self {
        Self::with_room(table, 0)
    }

    /// No rows of `table` yet, and room for about so many: columns that grow step by step are copied at each step.
    pub fn with_room(table: &'static Table, rows: usize) -> Self {
        let columns = table.columns().map(|column| Column::new(column.kind, rows)).collect();
        Self { schema: table.schema(), columns, rows: 0, bytes: 0, source: Source::default() }
    }

    /// How many rows were ended so far.
    pub fn count(&self) -> usize {
        self.rows
    }

    /// Roughly the memory that the rows take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Ends the row whose columns were set since the last call.
    pub fn end(&mut self) {
        self.rows += 1;
        self.bytes += ROW_BYTES;
    }

    /// Sets a text column.
    #[inline]
    pub fn text(&mut self, column: usize, value: &str) {
        if let Some(Column::Text(runs)) = self.columns.get_mut(column) {
            self.bytes += runs.set(self.rows, value);
        }
    }

    /// Sets a text column to bytes that were found to be UTF-8 before; others are no text.
    #[inline]
    pub fn checked(&mut self, column: usize, value: &[u8]) {
        if let Some(Column::Text(runs)) = self.columns.get_mut(column) {
            self.bytes += runs.set_checked(self.rows, value);
        }
    }

    /// The same if there is a value.
    #[inline]
    pub fn checked_opt(&mut self, column: usize, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.checked(column, value);
        }
    }

    /// Sets a text column to the hex digits of an id of at most 16 bytes.
    #[inline]
    pub fn id(&mut self, column: usize, id: &[u8]) {
        if let Some(Column::Text(runs)) = self.columns.get_mut(column) {
            self.bytes += runs.set_id(self.rows, id);
        }
    }

    /// Sets a text column of this row and all that follow, until it is set again.
    pub fn hold(&mut self, column: usize, value: Option<&str>) {
        if let Some(Column::Text(runs)) = self.columns.get_mut(column) {
            self.bytes += runs.hold(self.rows, value);
        }
    }

    /// Notes from where the next row is, and says in what the one before was from elsewhere: its group, its pattern. What is
    /// held must then be held anew.
    #[inline]
    pub fn enter(&mut self, source: Source) -> (bool, bool) {
        let before = std::mem::replace(&mut self.source, source);
        (before.group != source.group, before.pattern != source.pattern)
    }

    /// Sets a text column if there is a value.
    #[inline]
    pub fn text_opt(&mut self, column: usize, value: Option<&str>) {
        if let Some(value) = value {
            self.text(column, value);
        }
    }

    /// Sets a text column unless the text is empty.
    pub fn text_some(&mut self, column: usize, value: &str) {
        if !value.is_empty() {
            self.text(column, value);
        }
    }

    /// Sets a column of whole numbers.
    #[inline]
    pub fn int(&mut self, column: usize, value: i64) {
        let row = self.rows;
        if let Some(Column::Int(builder)) = self.columns.get_mut(column) {
            let gap = row - builder.len();
            if gap > 0 {
                builder.append_nulls(gap);
            }
            builder.append_value(value);
        }
    }

    /// Sets a column of whole numbers if there is a value.
    #[inline]
    pub fn int_opt(&mut self, column: usize, value: Option<i64>) {
        if let Some(value) = value {
            self.int(column, value);
        }
    }

    /// Sets a column of numbers.
    pub fn double(&mut self, column: usize, value: f64) {
        let row = self.rows;
        if let Some(Column::Double(builder)) = self.columns.get_mut(column) {
            builder.append_nulls(row - builder.len());
            builder.append_value(value);
        }
    }

    /// Sets a column of numbers if there is a value.
    pub fn double_opt(&mut self, column: usize, value: Option<f64>) {
        if let Some(value) = value {
            self.double(column, value);
        }
    }

    /// Sets a column of truth values.
    pub fn flag(&mut self, column: usize, value: bool) {
        let row = self.rows;
        if let Some(Column::Bool(builder)) = self.columns.get_mut(column) {
            builder.append_nulls(row - builder.len());
            builder.append_value(value);
        }
    }

    /// Sets a column of times, microseconds since 1970-01-01 UTC.
    #[inline]
    pub fn time(&mut self, column: usize, us: i64) {
        let row = self.rows;
        if let Some(Column::Time(builder)) = self.columns.get_mut(column) {
            let gap = row - builder.len();
            if gap > 0 {
                builder.append_nulls(gap);
            }
            builder.append_value(us);
        }
    }

    /// Sets a map column; a key that comes twice keeps its last value, since readers refuse maps with equal keys.
    pub fn map<'k, V: AsRef<str>>(&mut self, column: usize, entries: impl IntoIterator<Item = (&'k str, V)>) {
        let row = self.rows;
        let Some(Column::Map(builder)) = self.columns.get_mut(column) else { return };
        let gap = row - builder.len();
        // Appending to a map fails only if keys and values differ in number, and here they come in pairs.
        let _ = builder.append_nulls(gap);
        for (key, value) in unique(entries) {
            let value = value.as_ref();
            builder.keys().append_value(key);
            builder.values().append_value(value);
            self.bytes += key.len() + value.len() + 8;
        }
        let _ = builder.append(true);
    }

    /// Sets a column of lists of whole numbers.
    pub fn ints(&mut self, column: usize, values: impl IntoIterator<Item = i64>) {
        let row = self.rows;
        if let Some(Column::IntList(builder)) = self.columns.get_mut(column) {
            builder.append_nulls(row - builder.len());
            for value in values {
                builder.values().append_value(value);
                self.bytes += 8;
            }
            builder.append(true);
        }
    }

    /// Sets a column of lists of numbers.
    pub fn doubles(&mut self, column: usize, values: impl IntoIterator<Item = f64>) {
        let row = self.rows;
        if let Some(Column::DoubleList(builder)) = self.columns.get_mut(column) {
            builder.append_nulls(row - builder.len());
            for value in values {
                builder.values().append_value(value);
                self.bytes += 8;
            }
            builder.append(true);
        }
    }

    /// All rows as one batch. Text that repeats in long runs comes run-end encoded.
    pub fn finish(mut self) -> Result<RecordBatch> {
        let failed = |error| Error::internal("build a batch of rows").with_source(error);
        let rows = self.rows;
        let columns: std::result::Result<Vec<ArrayRef>, _> =
            self.columns.iter_mut().map(|column| column.finish(rows)).collect();
        let columns = columns.map_err(failed)?;
        RecordBatch::try_new(typed_as(&self.schema, &columns), columns).map_err(failed)
    }
}

/// The schema with the types that the columns came in.
fn typed_as(schema: &Schema, columns: &[ArrayRef]) -> SchemaRef {
    let typed = |(field, column): (&Arc<Field>, &ArrayRef)| {
        let same = field.data_type() == column.data_type();
        if same {
            Arc::clone(field)
        } else {
            Arc::new(field.as_ref().clone().with_data_type(column.data_type().clone()))
        }
    };
    let fields: Vec<_> = schema.fields().iter().zip(columns).map(typed).collect();
    Arc::new(Schema::new(fields))
}

/// Offsets, validity and numbers of a row, beside its text: what a row without any took of 12 million in one body.
pub const ROW_BYTES: usize = 128;

/// Entries whose keys are all different; the last of equal keys stays. Few emitters repeat a key, and few send many keys.
fn unique<'k, V>(entries: impl IntoIterator<Item = (&'k str, V)>) -> Vec<(&'k str, V)> {
    let mut kept: Vec<(&str, V)> = Vec::new();
    // Where each key stands, once there are too many keys to look through.
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (key, value) in entries {
        if kept.len() == LOOKED_THROUGH && places.is_empty() {
            places.extend(kept.iter().enumerate().map(|(place, (key, _))| (*key, place)));
        }
        let place = match places.is_empty() {
            true => kept.iter().position(|(known, _)| *known == key),
            false => places.get(key).copied(),
        };
        if let Some(slot) = place.and_then(|place| kept.get_mut(place)) {
            slot.1 = value;
            continue;
        }
        if !places.is_empty() {
            places.insert(key, kept.len());
        }
        kept.push((key, value));
    }
    kept
}

/// Keys up to which a look through all of them is faster than hashing.
const LOOKED_THROUGH: usize = 32;

impl Column {
    fn new(kind: Kind, rows: usize) -> Self {
        match kind {
            Kind::Text => Column::Text(Box::new(Runs::new())),
            Kind::Int => Column::Int(Int64Builder::with_capacity(rows)),
            Kind::Double => Column::Double(Float64Builder::with_capacity(rows)),
            Kind::Bool => Column::Bool(BooleanBuilder::new()),
            Kind::Time => Column::Time(TimestampMicrosecondBuilder::with_capacity(rows).with_timezone("UTC")),
            Kind::Money => Column::Money(Decimal128Builder::new().with_data_type(kind.arrow())),
            Kind::Map => {
                let names = MapFieldNames { entry: "key_value".into(), key: "key".into(), value: "value".into() };
                Column::Map(Box::new(MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new())))
            }
            Kind::IntList => {
                Column::IntList(Box::new(ListBuilder::new(Int64Builder::new()).with_field(element(DataType::Int64))))
            }
            Kind::DoubleList => Column::DoubleList(Box::new(
                ListBuilder::new(Float64Builder::new()).with_field(element(DataType::Float64)),
            )),
        }
    }

    fn finish(&mut self, rows: usize) -> std::result::Result<ArrayRef, ArrowError> {
        let array: ArrayRef = match self {
            Column::Text(runs) => return runs.finish(rows),
            Column::Int(builder) => {
                builder.append_nulls(rows - builder.len());
                Arc::new(builder.finish())
            }
            Column::Double(builder) => {
                builder.append_nulls(rows - builder.len());
                Arc::new(builder.finish())
            }
            Column::Bool(builder) => {
                builder.append_nulls(rows - builder.len());
                Arc::new(builder.finish())
            }
            Column::Time(builder) => {
                builder.append_nulls(rows - builder.len());
                Arc::new(builder.finish())
            }
            Column::Money(builder) => {
                builder.append_nulls(rows - builder.len());
                Arc::new(builder.finish())
            }
            Column::Map(builder) => {
                builder.append_nulls(rows - builder.len())?;
                Arc::new(builder.finish())
            }
            Column::IntList(builder) => {
                builder.append_nulls(rows - builder.len());
                Arc::new(builder.finish())
            }
            Column::DoubleList(builder) => {
                builder.append_nulls(rows - builder.len());
                Arc::new(builder.finish())
            }
        };
        Ok(array)
    }
}

fn element(kind: DataType) -> Field {
    Field::new("element", kind, true)
}

/// Declares a struct that holds the position of a table's columns, each under its name.
macro_rules! columns {
    ($(#[$doc:meta])* $vis:vis $name:ident of $table:path: $($column:ident)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs, reason = "a position is named as its column, which the registry documents")]
        $vis struct $name { $($vis $column: usize,)* }

        impl $name {
            /// Finds the columns.
            ///
            /// # Errors
            /// `Internal` if the registry lacks one.
            $vis fn new() -> service::error::Result<Self> {
                Ok(Self { $($column: $crate::batch::rows::position(&$table, stringify!($column))?,)* })
            }
        }
    };
}
pub(crate) use columns;

/// Where a column stands in its table.
pub fn position(table: &'static Table, column: &str) -> Result<usize> {
    table
        .columns()
        .position(|candidate| candidate.name == column)
        .ok_or_else(|| Error::internal(format!("table {} has no column {column}", table.name)))
}

#[cfg(test)]
mod tests {
    use super::unique;

    /// Of equal keys the last value stays in the first one's place, among few keys and among many.
    #[test]
    fn the_last_of_equal_keys_stays() {
        for count in [3, 31, 32, 33, 1_000] {
            let keys: Vec<String> = (0..count).map(|at| format!("k{at}")).collect();
            let entries = keys.iter().map(|key| (key.as_str(), 0)).chain([("k1", 7), ("new", 8), ("new", 9)]);
            let kept = unique(entries);
            assert_eq!(kept.len(), count + 1, "{count}");
            assert_eq!((kept[1], kept[count]), (("k1", 7), ("new", 9)), "{count}");
        }
    }
}
