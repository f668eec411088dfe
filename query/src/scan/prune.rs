//! Leaves out files that cannot hold a matching row, by what the Delta log says of them.

use std::{collections::HashSet, sync::Arc};

use arrow::{
    array::{ArrayRef, BooleanArray, UInt64Array},
    datatypes::{DataType, SchemaRef},
};
use datafusion::{
    common::{Column, ScalarValue, pruning::PruningStatistics},
    physical_optimizer::pruning::PruningPredicateBuilder,
    physical_plan::PhysicalExpr,
};
use lake::{ColumnStats, File, Value};
use telemetry::table::PARTITION;

/// The files that may hold a row for which `predicate` is true. What cannot be decided is kept.
pub(super) fn keep(files: &[Arc<File>], predicate: Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Vec<Arc<File>> {
    let bounds = Bounds { files, schema };
    let pruning = PruningPredicateBuilder::new().with_file_schema(Arc::clone(schema)).build(predicate);
    match pruning.map(|pruning| pruning.prune(&bounds)) {
        Some(Ok(kept)) => files.iter().zip(kept).filter(|(_, keep)| *keep).map(|(file, _)| Arc::clone(file)).collect(),
        None | Some(Err(_)) => files.to_vec(),
    }
}

struct Bounds<'a> {
    files: &'a [Arc<File>],
    schema: &'a SchemaRef,
}

impl Bounds<'_> {
    fn column(&self, name: &str, bound: impl Fn(&ColumnStats) -> Option<&Value>) -> Option<ArrayRef> {
        let kind = self.schema.field_with_name(name).ok()?.data_type();
        let scalars = self.files.iter().map(|file| {
            if name == PARTITION {
                return ScalarValue::Utf8(Some(file.date.clone()));
            }
            file.stats.get(name).and_then(&bound).map_or_else(|| null(kind), |value| scalar(value, kind))
        });
        ScalarValue::iter_to_array(scalars).ok()
    }
}

impl PruningStatistics for Bounds<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.column(&column.name, |stats| stats.min.as_ref())
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.column(&column.name, |stats| stats.max.as_ref())
    }

    fn num_containers(&self) -> usize {
        self.files.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let nulls = self.files.iter().map(|file| match file.stats.get(&column.name) {
            Some(stats) => stats.nulls,
            None => (column.name == PARTITION).then_some(0),
        });
        Some(Arc::new(UInt64Array::from_iter(nulls)))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(UInt64Array::from_iter(self.files.iter().map(|file| file.rows))))
    }

    fn contained(&self, _column: &Column, _values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

/// The bound as the column's type; NULL, which decides nothing, where the log holds something else.
pub(super) fn scalar(value: &Value, kind: &DataType) -> ScalarValue {
    match (value, kind) {
        (Value::Time(us), DataType::Timestamp(_, zone)) => ScalarValue::TimestampMicrosecond(Some(*us), zone.clone()),
        (Value::Int(number), DataType::Int64) => ScalarValue::Int64(Some(*number)),
        (Value::Double(number), DataType::Float64) => ScalarValue::Float64(Some(*number)),
        (Value::Bool(truth), DataType::Boolean) => ScalarValue::Boolean(Some(*truth)),
        (Value::Text(text), DataType::Utf8View) => ScalarValue::Utf8View(Some(text.clone())),
        _ => null(kind),
    }
}

fn null(kind: &DataType) -> ScalarValue {
    ScalarValue::try_from(kind).unwrap_or(ScalarValue::Null)
}
