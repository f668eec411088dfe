//! Exponential histograms in SQL: `exph(value)` makes one, `exph_merge(h)` adds them, `exph_quantile(h, q)` reads them.
//!
//! ```text
//! values ─► exph ─┐
//! roll-up columns ─► exph_of ─┼─► exph_merge ─► exph_quantile, exph_rank, exph_rank_interval, exph_error
//! table histograms ─► exph_from_otel ─┘
//! ```
//!
//! A histogram is a struct with the fields of a roll-up's columns, so that it can be stored, sent between workers and read
//! by anybody. NULL, NaN and infinities are no observations; without any the histogram is NULL, and so is what is read from it.

mod aggregate;
mod column;
mod convert;
mod read;

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::{
    common::{Result, plan_err},
    logical_expr::{AggregateUDF, ScalarUDF},
};

use aggregate::Exph;
use convert::{ExphFromOtel, ExphOf};
use read::{Question, Read};

/// Aggregates that make histograms.
pub(super) fn aggregate() -> Vec<Arc<AggregateUDF>> {
    [Exph::observing(), Exph::merging()].map(|function| Arc::new(AggregateUDF::from(function))).into()
}

/// Functions of one row.
pub(super) fn scalar() -> Vec<Arc<ScalarUDF>> {
    let mut all: Vec<_> = Question::ALL.map(|question| Arc::new(ScalarUDF::from(Read::new(question)))).into();
    all.push(Arc::new(ScalarUDF::from(ExphOf::default())));
    all.push(Arc::new(ScalarUDF::from(ExphFromOtel::default())));
    all
}

/// The type of a histogram, if the argument is one or NULL.
fn histogram_argument(function: &str, kind: &DataType) -> Result<DataType> {
    let is_histogram = match kind {
        DataType::Null => true,
        DataType::Struct(fields) => column::FIELDS.iter().all(|(name, _)| fields.find(name).is_some()),
        _ => false,
    };
    if is_histogram {
        return Ok(column::kind());
    }
    plan_err!(
        "{function} takes a histogram, as exph(), exph_merge(), exph_of() and exph_from_otel() make it, not {kind}; \
         exph(value) makes one of numbers"
    )
}

/// The number's type, if the argument is a number or NULL.
fn number_argument(function: &str, kind: &DataType) -> Result<DataType> {
    if kind.is_numeric() || kind.is_null() {
        return Ok(DataType::Float64);
    }
    plan_err!("{function} takes a number here, not {kind}")
}

#[cfg(test)]
mod tests;
