//! A function of windows alone, such as `first_value`.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::ArrayRef,
    compute::SortOptions,
    datatypes::{DataType, FieldRef},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{
        LimitEffect, PartitionEvaluator, Signature, WindowUDF, WindowUDFImpl,
        function::{ExpressionArgs, PartitionEvaluatorArgs, WindowFunctionSimplification, WindowUDFFieldArgs},
        window_state::WindowAggState,
    },
    physical_plan::PhysicalExpr,
};

use super::{Limits, Results};

/// The function with its results counted.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Ranked {
    pub(super) inner: WindowUDF,
    pub(super) limits: Limits,
}

impl WindowUDFImpl for Ranked {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn expressions(&self, arguments: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>> {
        self.inner.expressions(arguments)
    }

    fn partition_evaluator(&self, arguments: PartitionEvaluatorArgs<'_>) -> Result<Box<dyn PartitionEvaluator>> {
        let inner = self.inner.partition_evaluator_factory(arguments)?;
        Ok(Box::new(Counted { inner, results: Results::new(self.inner.name(), self.limits) }))
    }

    fn simplify(&self) -> Option<WindowFunctionSimplification> {
        None
    }

    fn field(&self, arguments: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.field(arguments)
    }

    fn sort_options(&self) -> Option<SortOptions> {
        self.inner.sort_options()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn limit_effect(&self, arguments: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.inner.inner().limit_effect(arguments)
    }
}

/// One partition with what it has given.
#[derive(Debug)]
struct Counted {
    inner: Box<dyn PartitionEvaluator>,
    results: Results,
}

impl PartitionEvaluator for Counted {
    fn memoize(&mut self, state: &mut WindowAggState) -> Result<()> {
        self.inner.memoize(state)
    }

    fn get_range(&self, index: usize, rows: usize) -> Result<Range<usize>> {
        self.inner.get_range(index, rows)
    }

    fn is_causal(&self) -> bool {
        self.inner.is_causal()
    }

    /// As many values as rows came, and no other.
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        self.inner.evaluate_all(values, rows)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        let result = self.inner.evaluate(values, range)?;
        self.results.add(&result, 1)?;
        Ok(result)
    }

    fn evaluate_all_with_rank(&self, rows: usize, ranks: &[Range<usize>]) -> Result<ArrayRef> {
        self.inner.evaluate_all_with_rank(rows, ranks)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.inner.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.inner.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.inner.include_rank()
    }
}
