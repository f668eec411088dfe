//! SQL functions of our own. They live here so that a view, a page and an analyst's query count money the same way.

mod money_scale;
mod money_split;

use std::sync::Arc;

use datafusion::logical_expr::{ScalarUDF, WindowUDF};

use money_scale::MoneyScale;
use money_split::MoneySplit;

/// Scalar functions every session knows.
pub(crate) fn scalar() -> Vec<Arc<ScalarUDF>> {
    vec![Arc::new(ScalarUDF::from(MoneyScale::default()))]
}

/// Window functions every session knows.
pub(crate) fn window() -> Vec<Arc<WindowUDF>> {
    vec![Arc::new(WindowUDF::from(MoneySplit::default()))]
}
