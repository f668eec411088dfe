//! SQL functions of our own. They live here so that a view, a page and an analyst's query count money the same way.

pub(crate) mod bounded;
pub(crate) mod cancel;
mod casting;
mod money_scale;
mod money_split;
mod operators;

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::logical_expr::{Operator, ScalarUDF, WindowUDF};

use casting::Casting;
use money_scale::MoneyScale;
use money_split::MoneySplit;
use operators::{Held, OperatorFunction};

/// Scalar functions every session knows.
pub(crate) fn scalar() -> Vec<Arc<ScalarUDF>> {
    vec![Arc::new(ScalarUDF::from(MoneyScale::default()))]
}

/// Window functions every session knows.
pub(crate) fn window() -> Vec<Arc<WindowUDF>> {
    vec![Arc::new(WindowUDF::from(MoneySplit::default()))]
}

/// `||` between texts.
pub(crate) fn text_concat() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(OperatorFunction::new("text_concat", Operator::StringConcat)))
}

/// One of the regular expression matches `~`, `~*`, `!~`, `!~*`.
pub(crate) fn text_search(operator: Operator) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(OperatorFunction::new("text_search", operator)))
}

/// What it is given; bounded, it checks and charges that.
pub(crate) fn held() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Held::default()))
}

/// `CAST`, or `TRY_CAST`, to what `field` is.
pub(crate) fn cast(field: FieldRef, is_try: bool) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Casting::new(field, is_try)))
}
