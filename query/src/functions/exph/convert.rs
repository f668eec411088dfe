//! Histograms from columns: those of a roll-up, and those of table `histograms`.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, Float64Array, Int64Array},
    datatypes::DataType,
};
use datafusion::{
    common::{Result, exec_datafusion_err, exec_err},
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility},
};
use telemetry::{
    histogram::{Exponential, Histogram},
    table::Kind,
};

use super::column::{self, FIELDS, Histograms, Writer};
use crate::functions::{
    arguments,
    lists::{Ints, doubles, ints},
};

/// `exph_of(scale, zero, idx, cnt, count, sum, min, max)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ExphOf {
    signature: Signature,
}

impl Default for ExphOf {
    fn default() -> Self {
        ExphOf { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for ExphOf {
    fn name(&self) -> &'static str {
        "exph_of"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::coerced(self.name(), types, &FIELDS)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(column::kind())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&arguments.args)?;
        let Some(scale) = columns.first() else { return exec_err!("exph_of takes 8 columns") };
        let histograms = Histograms::of_fields(scale.as_ref(), &columns)?;
        let mut writer = Writer::new(histograms.len());
        for row in 0..histograms.len() {
            writer.push(histograms.get(row)?.as_ref());
        }
        Ok(ColumnarValue::Array(Arc::new(writer.finish()?)))
    }
}

/// `exph_from_otel(scale, zero_count, zero_threshold, positive_offset, positive_counts, negative_counts, sum, min, max)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ExphFromOtel {
    signature: Signature,
}

/// The arguments, as the columns of table `histograms` are.
const SENT: [(&str, Kind); 9] = [
    ("scale", Kind::Int),
    ("zero_count", Kind::Int),
    ("zero_threshold", Kind::Double),
    ("positive_offset", Kind::Int),
    ("positive_counts", Kind::IntList),
    ("negative_counts", Kind::IntList),
    ("sum", Kind::Double),
    ("min", Kind::Double),
    ("max", Kind::Double),
];

impl Default for ExphFromOtel {
    fn default() -> Self {
        ExphFromOtel { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for ExphFromOtel {
    fn name(&self) -> &'static str {
        "exph_from_otel"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::coerced(self.name(), types, &SENT)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(column::kind())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&arguments.args)?;
        let sent = Sent::of(&columns)?;
        let mut writer = Writer::new(sent.scale.len());
        for row in 0..sent.scale.len() {
            writer.push(sent.get(row)?.as_ref());
        }
        Ok(ColumnarValue::Array(Arc::new(writer.finish()?)))
    }
}

struct Sent<'a> {
    scale: &'a Int64Array,
    zero_count: &'a Int64Array,
    zero_threshold: &'a Float64Array,
    positive_offset: &'a Int64Array,
    positive_counts: Ints<'a>,
    negative_counts: Ints<'a>,
    sum: &'a Float64Array,
    min: &'a Float64Array,
    max: &'a Float64Array,
}

impl<'a> Sent<'a> {
    fn of(columns: &'a [ArrayRef]) -> Result<Sent<'a>> {
        let [scale, zeros, threshold, offset, positive, negative, sum, min, max] = columns else {
            return exec_err!("exph_from_otel takes 9 columns, not {}", columns.len());
        };
        Ok(Sent {
            scale: ints(scale)?,
            zero_count: ints(zeros)?,
            zero_threshold: doubles(threshold)?,
            positive_offset: ints(offset)?,
            positive_counts: Ints::of(positive)?,
            negative_counts: Ints::of(negative)?,
            sum: doubles(sum)?,
            min: doubles(min)?,
            max: doubles(max)?,
        })
    }

    /// `None` for a row without a scale: it is no exponential histogram. What else is not sent is zero or empty, as in OTLP.
    fn get(&self, row: usize) -> Result<Option<Histogram>> {
        if self.scale.is_null(row) {
            return Ok(None);
        }
        let int = |column: &Int64Array| if column.is_valid(row) { column.value(row) } else { 0 };
        let double = |column: &Float64Array| column.is_valid(row).then(|| column.value(row));
        let sent = Exponential {
            scale: self.scale.value(row),
            zero_count: int(self.zero_count),
            zero_threshold: double(self.zero_threshold).unwrap_or(0.0),
            positive_offset: int(self.positive_offset),
            positive_counts: self.positive_counts.get(row)?,
            negative_counts: self.negative_counts.get(row)?,
            sum: double(self.sum),
            min: double(self.min),
            max: double(self.max),
        };
        let read = Histogram::from_otel(&sent);
        read.map(Some).map_err(|malformed| exec_datafusion_err!("a row of histograms cannot be read: {malformed}"))
    }
}
