//! Rows in the making: numbers that look random, and columns of a batch.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Decimal128Array, Float64Array, Int64Array, Int64Builder, ListBuilder, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use service::error::{Error, Result};
use telemetry::table::schema::{MONEY_PRECISION, MONEY_SCALE};

/// Numbers that look random and are the same each time (SplitMix64).
pub(super) struct Draws(u64);

impl Draws {
    /// The numbers of one thing among many of a kind.
    pub(super) fn of(kind: u64, index: u64) -> Draws {
        let mut draws = Draws(kind.wrapping_mul(0xA076_1D64_78BD_642F) ^ index);
        draws.bits();
        draws
    }

    /// 64 bits.
    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A whole number below `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound.max(1)
    }

    /// From 0 to 1.
    pub(super) fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Mean 0, deviation 1: four uniform numbers added up, so never beyond 3.5.
    pub(super) fn normal(&mut self) -> f64 {
        let bits = self.bits();
        let sum: u64 = (0..4).map(|part| (bits >> (16 * part)) & 0xFFFF).sum();
        (sum as f64 / 65_536.0 - 2.0) * 3.0_f64.sqrt()
    }

    /// Around `median`, with the deviation of its logarithm.
    pub(super) fn around(&mut self, median: f64, deviation: f64) -> f64 {
        median * (self.normal() * deviation).exp()
    }
}

/// Columns of one batch.
#[derive(Default)]
pub(super) struct Columns(Vec<(String, ArrayRef)>);

impl Columns {
    fn with(mut self, name: &str, column: ArrayRef) -> Columns {
        self.0.push((name.to_owned(), column));
        self
    }

    /// Instants, microseconds since 1970-01-01 UTC.
    pub(super) fn time(self, name: &str, values: impl Iterator<Item = i64>) -> Columns {
        self.with(name, Arc::new(TimestampMicrosecondArray::from_iter_values(values).with_timezone("UTC")))
    }

    /// Text.
    pub(super) fn text<'a>(self, name: &str, values: impl Iterator<Item = &'a str>) -> Columns {
        self.with(name, Arc::new(StringArray::from_iter_values(values)))
    }

    /// Text that may be unknown.
    pub(super) fn text_known<'a>(self, name: &str, values: impl Iterator<Item = Option<&'a str>>) -> Columns {
        self.with(name, Arc::new(values.collect::<StringArray>()))
    }

    /// Whole numbers.
    pub(super) fn int(self, name: &str, values: impl Iterator<Item = i64>) -> Columns {
        self.with(name, Arc::new(Int64Array::from_iter_values(values)))
    }

    /// Numbers.
    pub(super) fn double(self, name: &str, values: impl Iterator<Item = f64>) -> Columns {
        self.with(name, Arc::new(Float64Array::from_iter_values(values)))
    }

    /// Money, in the table's smallest unit.
    pub(super) fn money(self, name: &str, values: impl Iterator<Item = i128>) -> Result<Columns> {
        let column = Decimal128Array::from_iter_values(values).with_precision_and_scale(MONEY_PRECISION, MONEY_SCALE);
        let column = column.map_err(|error| Error::internal("money out of range").with_source(error))?;
        Ok(self.with(name, Arc::new(column)))
    }

    /// Lists of whole numbers.
    pub(super) fn ints<'a>(self, name: &str, values: impl Iterator<Item = &'a [i64]>) -> Columns {
        let mut lists = ListBuilder::new(Int64Builder::new());
        for value in values {
            lists.values().append_slice(value);
            lists.append(true);
        }
        self.with(name, Arc::new(lists.finish()))
    }

    /// The batch.
    ///
    /// # Errors
    /// `Internal` if the columns differ in length.
    pub(super) fn batch(self) -> Result<RecordBatch> {
        RecordBatch::try_from_iter(self.0).map_err(|error| Error::internal("columns of a batch").with_source(error))
    }
}
