//! What a set of rows comes to, to prove that a merge has kept them.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, TimestampMicrosecondType};
use xxhash_rust::xxh3::xxh3_64;

/// What a set of rows comes to, whatever their order.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Digest {
    pub(super) rows: u64,
    /// Per column: values that are NULL, and the sum of all others modulo 2^64.
    columns: BTreeMap<String, (u64, u64)>,
}

impl Digest {
    /// These rows too.
    pub(super) fn add(&mut self, batch: &RecordBatch) {
        self.rows += batch.num_rows() as u64;
        for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            let (nulls, sum) = self.columns.entry(field.name().clone()).or_default();
            *nulls += array.null_count() as u64;
            *sum = sum.wrapping_add(column_sum(array));
        }
    }
}

/// Whole numbers add up; of doubles the bits do, since their sum would depend on the order; of text, a hash of each value; of
/// maps and lists, their values and how many there are.
fn column_sum(array: &ArrayRef) -> u64 {
    let total = |values: &mut dyn Iterator<Item = u64>| values.fold(0_u64, u64::wrapping_add);
    match array.data_type() {
        DataType::Int64 => total(&mut array.as_primitive::<Int64Type>().iter().flatten().map(i64::cast_unsigned)),
        DataType::Timestamp(..) => match array.as_primitive_opt::<TimestampMicrosecondType>() {
            Some(times) => total(&mut times.iter().flatten().map(i64::cast_unsigned)),
            None => 0,
        },
        DataType::Float64 => total(&mut array.as_primitive::<Float64Type>().iter().flatten().map(f64::to_bits)),
        DataType::Decimal128(..) => {
            let hash = |value: i128| xxh3_64(&value.to_le_bytes());
            total(&mut array.as_primitive::<Decimal128Type>().iter().flatten().map(hash))
        }
        DataType::Boolean => array.as_boolean().true_count() as u64,
        DataType::Utf8 => total(&mut array.as_string::<i32>().iter().flatten().map(|text| xxh3_64(text.as_bytes()))),
        DataType::Map(..) => {
            let maps = array.as_map();
            entries(maps.value_offsets(), maps.entries().columns())
        }
        DataType::List(..) => {
            let lists = array.as_list::<i32>();
            entries(lists.value_offsets(), std::slice::from_ref(lists.values()))
        }
        _ => 0,
    }
}

/// How many entries lists or maps have together, and what the entries come to.
fn entries(offsets: &[i32], columns: &[ArrayRef]) -> u64 {
    let place = |offset: Option<&i32>| usize::try_from(offset.copied().unwrap_or(0)).unwrap_or(0);
    let (first, last) = (place(offsets.first()), place(offsets.last()));
    let count = last.saturating_sub(first);
    let sums = columns.iter().map(|column| column_sum(&column.slice(first, count)));
    sums.fold(count as u64, u64::wrapping_add)
}
