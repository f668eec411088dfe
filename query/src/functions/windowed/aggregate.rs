//! An aggregate over a window.

use arrow::{
    array::ArrayRef,
    datatypes::{DataType, FieldRef},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, SetMonotonicity, Signature,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
};

use super::{Limits, Results};

/// The aggregate with its results counted. It cannot be turned round, so that none gets past the count.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Aggregate {
    pub(super) inner: AggregateUDF,
    pub(super) limits: Limits,
}

impl Aggregate {
    fn counted(&self, inner: Box<dyn Accumulator>) -> Box<dyn Accumulator> {
        Box::new(Counted { inner, rows: 0, results: Results::new(self.inner.name(), self.limits) })
    }
}

impl AggregateUDFImpl for Aggregate {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.inner.return_field(fields)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(arguments)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(self.counted(self.inner.accumulator(arguments)?))
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(self.counted(self.inner.create_sliding_accumulator(arguments)?))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        // it has the order of its window, whatever it would do with one of its own
        AggregateOrderSensitivity::Insensitive
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }

    fn default_value(&self, kind: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(kind)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }

    fn set_monotonicity(&self, kind: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(kind)
    }
}

/// What one partition has seen, with what it has given.
#[derive(Debug)]
struct Counted {
    inner: Box<dyn Accumulator>,
    rows: usize,
    results: Results,
}

impl Accumulator for Counted {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.rows = self.rows.saturating_add(values.first().map_or(0, |column| column.len()));
        self.inner.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let result = self.inner.evaluate()?;
        let rows = if self.results.limits.is_repeated { self.rows } else { 1 };
        self.results.add(&result, rows)?;
        Ok(result)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}
