//! Planning kept within bounds: a statement of a few lines may become a plan that no machine holds.
//!
//! A name of a WITH clause is planned anew wherever it stands, and a filter that sinks below a projection takes up what its columns
//! are made of: either may double with every step. So a plan is counted before it is gone through, and every node after a rule
//! changed it.

use std::sync::Arc;

use datafusion::{
    common::{
        Result, resources_err,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    logical_expr::LogicalPlan,
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
};

use crate::execute::running;

/// Most operators of a statement, each view counted as one: ten times those of the dashboard's largest.
const OPERATORS_MAX: usize = 2_000;
/// Most parts of the expressions of one operator: five times what a statement of a thousand links may spell out.
const PARTS_MAX: usize = 20_000;

/// # Errors
/// `ResourcesExhausted` if the plan has too many operators.
pub(super) fn count(plan: &LogicalPlan) -> Result<()> {
    let mut operators = 0;
    plan.apply_with_subqueries(|_| {
        operators += 1;
        Ok(if operators > OPERATORS_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if operators > OPERATORS_MAX {
        return resources_err!(
            "the statement has more than {OPERATORS_MAX} operators once its WITH clauses are written out wherever they are named"
        );
    }
    Ok(())
}

/// A rule that asks before every node whether somebody still waits for the plan, and after it how much it made of it.
#[derive(Debug)]
pub(crate) struct Watched(pub(crate) Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for Watched {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        running::check()?;
        let rewritten = self.0.rewrite(plan, config)?;
        if rewritten.transformed {
            parts(&rewritten.data)?;
        }
        Ok(rewritten)
    }
}

fn parts(plan: &LogicalPlan) -> Result<()> {
    let mut parts = 0;
    let mut count = |node: &LogicalPlan| {
        node.apply_expressions(|expr| {
            expr.apply(|_| {
                parts += 1;
                Ok(if parts > PARTS_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    };
    // A filter that sank is one below.
    count(plan)?;
    plan.inputs().into_iter().try_for_each(|input| count(input).map(|_| ()))?;
    if parts > PARTS_MAX {
        return resources_err!(
            "planning the statement makes an expression of more than {PARTS_MAX} parts: a filter takes up what its columns are made of"
        );
    }
    Ok(())
}
