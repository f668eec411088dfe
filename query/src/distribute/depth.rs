//! How deeply a stage nests when it is written for a worker: its decoder (prost) takes 100 messages in each other and no more.

use std::sync::Arc;

use datafusion::{
    common::{Result, tree_node::TreeNodeRecursion},
    physical_expr::{PhysicalExpr, expressions::CaseExpr},
    physical_plan::ExecutionPlan,
};
use datafusion_distributed::NetworkBoundaryExt;

/// Messages in each other that a worker reads; some less than it does, for those that stand around a stage.
pub(super) const DEPTH_MAX: usize = 90;
/// Messages that an operator or an expression is: itself, and what kind it is.
const NODE: usize = 2;
/// Those of a `CASE`, each of whose branches is one, too.
const CASE: usize = 3;

/// The most messages in each other of any stage that goes to a worker.
///
/// # Errors
/// What an operator gives for its expressions.
pub(super) fn deepest_stage(plan: &Arc<dyn ExecutionPlan>) -> Result<usize> {
    let mut deepest = 0;
    for child in plan.children() {
        let below = if plan.is_network_boundary() { of_stage(child)? } else { 0 };
        deepest = deepest.max(below).max(deepest_stage(child)?);
    }
    Ok(deepest)
}

/// The messages of an operator and of those below it, up to where the next stage comes in.
fn of_stage(plan: &Arc<dyn ExecutionPlan>) -> Result<usize> {
    let mut below = 0;
    plan.apply_expressions(&mut |expression| {
        below = below.max(of_expression(expression));
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !plan.is_network_boundary() {
        for child in plan.children() {
            below = below.max(of_stage(child)?);
        }
    }
    Ok(NODE + below)
}

fn of_expression(expression: &Arc<dyn PhysicalExpr>) -> usize {
    let own = if expression.is::<CaseExpr>() { CASE } else { NODE };
    own + expression.children().into_iter().map(of_expression).max().unwrap_or(0)
}
