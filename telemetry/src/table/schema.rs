//! Arrow schemas, derived from the registry.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

use super::{Column, Kind, Table};

/// Digits of a `Money` value.
pub const MONEY_PRECISION: u8 = 38;
/// Digits of a `Money` value after the point: `$0.0375` per million tokens is `0.0000000375` a token.
pub const MONEY_SCALE: i8 = 12;

impl Table {
    /// The schema of the table's files: all columns, nullable but `time`. The partition column is not in it.
    ///
    /// A field's metadata holds `unit` and `comment`.
    pub fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(self.columns().map(field).collect::<Vec<_>>()))
    }
}

impl Kind {
    /// The Arrow type in memory and on disk.
    pub fn arrow(self) -> DataType {
        match self {
            Kind::Time => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Kind::Text => DataType::Utf8,
            Kind::Int => DataType::Int64,
            Kind::Double => DataType::Float64,
            Kind::Bool => DataType::Boolean,
            Kind::Money => DataType::Decimal128(MONEY_PRECISION, MONEY_SCALE),
            Kind::Map => map(),
            Kind::IntList => list(DataType::Int64),
            Kind::DoubleList => list(DataType::Float64),
        }
    }
}

fn field(column: &Column) -> Field {
    let nullable = column.name != "time";
    let mut metadata = std::collections::HashMap::from([("comment".to_owned(), column.doc.to_owned())]);
    if !column.unit.is_empty() {
        metadata.insert("unit".to_owned(), column.unit.to_owned());
    }
    Field::new(column.name, column.kind.arrow(), nullable).with_metadata(metadata)
}

/// Delta's map: a `key_value` struct of a `key` and a nullable `value`.
fn map() -> DataType {
    let entries =
        Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Utf8, true)]);
    DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(entries), false)), false)
}

fn list(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("element", element, true)))
}
