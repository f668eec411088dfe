//! Histograms as a column: a struct with the fields of a roll-up's columns.

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, AsArray, Float64Array, Float64Builder, Int64Array, Int64Builder, ListBuilder,
        NullBufferBuilder, StructArray,
    },
    datatypes::{DataType, Field, Fields},
};
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use telemetry::{
    histogram::{Histogram, Parts},
    table::Kind,
};

use crate::functions::lists::{Ints, doubles, ints};

/// The struct's fields: what `ttft_scale` … `ttft_max` are in a roll-up.
pub(super) const FIELDS: [(&str, Kind); 8] = [
    ("scale", Kind::Int),
    ("zero", Kind::Int),
    ("idx", Kind::IntList),
    ("cnt", Kind::IntList),
    ("count", Kind::Int),
    ("sum", Kind::Double),
    ("min", Kind::Double),
    ("max", Kind::Double),
];

/// The Arrow type of a histogram.
pub(super) fn kind() -> DataType {
    DataType::Struct(fields())
}

fn fields() -> Fields {
    FIELDS.map(|(name, kind)| Field::new(name, kind.arrow(), true)).into_iter().collect()
}

/// A column of histograms.
pub(super) struct Histograms<'a> {
    known: &'a dyn Array,
    scale: &'a Int64Array,
    zero: &'a Int64Array,
    indexes: Ints<'a>,
    counts: Ints<'a>,
    count: &'a Int64Array,
    sum: &'a Float64Array,
    min: &'a Float64Array,
    max: &'a Float64Array,
}

impl<'a> Histograms<'a> {
    /// The column as what [`kind`] says it is.
    pub(super) fn of(column: &'a ArrayRef) -> Result<Histograms<'a>> {
        let Some(rows) = column.as_struct_opt() else { return exec_err!("not a histogram: {}", column.data_type()) };
        Histograms::of_fields(rows, rows.columns())
    }

    /// The fields as columns of their own; `known` says in which rows there is a histogram.
    pub(super) fn of_fields(known: &'a dyn Array, fields: &'a [ArrayRef]) -> Result<Histograms<'a>> {
        let [scale, zero, indexes, counts, count, sum, min, max] = fields else {
            return exec_err!("a histogram has 8 fields, not {}", fields.len());
        };
        Ok(Histograms {
            known,
            scale: ints(scale)?,
            zero: ints(zero)?,
            indexes: Ints::of(indexes)?,
            counts: Ints::of(counts)?,
            count: ints(count)?,
            sum: doubles(sum)?,
            min: doubles(min)?,
            max: doubles(max)?,
        })
    }

    /// Rows of the column.
    pub(super) fn len(&self) -> usize {
        self.scale.len()
    }

    /// The histogram of a row; `None` where there is none, or where it has no scale or count.
    ///
    /// # Errors
    /// Fields that contradict each other.
    pub(super) fn get(&self, row: usize) -> Result<Option<Histogram>> {
        let is_known = self.known.is_valid(row) && self.scale.is_valid(row) && self.count.is_valid(row);
        if !is_known {
            return Ok(None);
        }
        let double = |column: &Float64Array| column.is_valid(row).then(|| column.value(row));
        let parts = Parts {
            scale: self.scale.value(row),
            zero: if self.zero.is_valid(row) { self.zero.value(row) } else { 0 },
            indexes: self.indexes.get(row)?,
            counts: self.counts.get(row)?,
            count: self.count.value(row),
            sum: double(self.sum),
            min: double(self.min),
            max: double(self.max),
        };
        let read = Histogram::from_parts(parts);
        read.map(Some).map_err(|malformed| exec_datafusion_err!("the columns are no histogram: {malformed}"))
    }
}

/// Makes a column of histograms, row by row.
pub(super) struct Writer {
    known: NullBufferBuilder,
    scale: Int64Builder,
    zero: Int64Builder,
    indexes: ListBuilder<Int64Builder>,
    counts: ListBuilder<Int64Builder>,
    count: Int64Builder,
    sum: Float64Builder,
    min: Float64Builder,
    max: Float64Builder,
}

impl Writer {
    pub(super) fn new(rows: usize) -> Writer {
        let list = || {
            // no room set aside: over a window every row is a column of its own
            let list = ListBuilder::with_capacity(Int64Builder::with_capacity(0), rows);
            match Kind::IntList.arrow() {
                DataType::List(element) => list.with_field(element),
                _ => list,
            }
        };
        let (int, double) = (|| Int64Builder::with_capacity(rows), || Float64Builder::with_capacity(rows));
        Writer {
            known: NullBufferBuilder::new(rows),
            scale: int(),
            zero: int(),
            indexes: list(),
            counts: list(),
            count: int(),
            sum: double(),
            min: double(),
            max: double(),
        }
    }

    /// Appends a row: NULL for none, and for one without observations.
    pub(super) fn push(&mut self, histogram: Option<&Histogram>) {
        let Some(histogram) = histogram.filter(|histogram| histogram.count() > 0) else { return self.push_null() };
        self.known.append_non_null();
        self.scale.append_value(histogram.scale().into());
        self.zero.append_value(whole(histogram.zero()));
        for bucket in histogram.buckets() {
            self.indexes.values().append_value(bucket.index.into());
            self.counts.values().append_value(whole(bucket.count));
        }
        self.indexes.append(true);
        self.counts.append(true);
        self.count.append_value(whole(histogram.count()));
        self.sum.append_option(histogram.sum());
        self.min.append_option(histogram.min());
        self.max.append_option(histogram.max());
    }

    fn push_null(&mut self) {
        self.known.append_null();
        for ints in [&mut self.scale, &mut self.zero, &mut self.count] {
            ints.append_null();
        }
        for lists in [&mut self.indexes, &mut self.counts] {
            lists.append_null();
        }
        for doubles in [&mut self.sum, &mut self.min, &mut self.max] {
            doubles.append_null();
        }
    }

    pub(super) fn finish(mut self) -> Result<StructArray> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.scale.finish()),
            Arc::new(self.zero.finish()),
            Arc::new(self.indexes.finish()),
            Arc::new(self.counts.finish()),
            Arc::new(self.count.finish()),
            Arc::new(self.sum.finish()),
            Arc::new(self.min.finish()),
            Arc::new(self.max.finish()),
        ];
        Ok(StructArray::try_new(fields(), columns, self.known.finish())?)
    }
}

/// Counts of histograms stay within a BIGINT.
fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
