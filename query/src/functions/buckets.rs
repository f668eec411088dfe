//! Classic histograms in SQL: `buckets_merge(bounds, counts)` adds them, `buckets_quantile(bounds, counts, q)` says between which
//! bounds a quantile lies. They tell no more, so no single number is given.

mod merge;

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Float64Array, ListArray},
    datatypes::DataType,
};
use datafusion::{
    common::{Result, exec_datafusion_err, exec_err},
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility},
};
use telemetry::{histogram, table::Kind};

use super::{
    arguments, interval,
    lists::{Ints, between, doubles},
};

pub(super) use merge::BucketsMerge;

const BOUNDS: (&str, Kind) = ("bounds", Kind::DoubleList);
const COUNTS: (&str, Kind) = ("counts", Kind::IntList);

/// `buckets_quantile(bounds, counts, q)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct BucketsQuantile {
    signature: Signature,
}

impl Default for BucketsQuantile {
    fn default() -> Self {
        BucketsQuantile { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for BucketsQuantile {
    fn name(&self) -> &'static str {
        "buckets_quantile"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::coerced(self.name(), types, &[BOUNDS, COUNTS, ("q", Kind::Double)])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(interval::kind())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&arguments.args)?;
        let [bounds, counts, q] = columns.as_slice() else { return exec_err!("buckets_quantile takes 3 arguments") };
        let (buckets, q) = (Classic::of(bounds, counts)?, doubles(q)?);
        let row = |row| match buckets.get(row)? {
            Some(buckets) if q.is_valid(row) => quantile(&buckets, q.value(row)),
            _ => Ok(None),
        };
        let rows = (0..q.len()).map(row).collect::<Result<Vec<_>>>()?;
        Ok(ColumnarValue::Array(Arc::new(interval::column(&rows)?)))
    }
}

fn quantile(buckets: &histogram::Buckets, q: f64) -> Result<Option<histogram::Interval>> {
    if (0.0..=1.0).contains(&q) {
        return Ok(buckets.quantile(q));
    }
    exec_err!("buckets_quantile takes a quantile between 0 and 1, such as 0.99 for p99, not {q}")
}

/// A column of bounds and one of counts.
struct Classic<'a> {
    bounds: &'a ListArray,
    values: &'a Float64Array,
    counts: Ints<'a>,
}

impl<'a> Classic<'a> {
    fn of(bounds: &'a ArrayRef, counts: &'a ArrayRef) -> Result<Classic<'a>> {
        let Some(rows) = bounds.as_list_opt::<i32>() else { return exec_err!("not a list: {}", bounds.data_type()) };
        Ok(Classic { bounds: rows, values: doubles(rows.values())?, counts: Ints::of(counts)? })
    }

    /// The row's buckets; `None` where there are no counts: an exponential histogram has none, nor has one that only counts.
    fn get(&self, row: usize) -> Result<Option<histogram::Buckets>> {
        let counts = self.counts.get(row)?;
        if counts.is_empty() {
            return Ok(None);
        }
        let bounds = if self.bounds.is_null(row) { 0..0 } else { between(self.bounds.value_offsets(), row) };
        if bounds.clone().any(|at| self.values.is_null(at)) {
            return exec_err!("a list of bucket bounds holds NULL");
        }
        let read = histogram::Buckets::try_new(&self.values.values()[bounds], counts);
        read.map(Some).map_err(|malformed| exec_datafusion_err!("the columns are no histogram: {malformed}"))
    }
}

#[cfg(test)]
mod tests;
