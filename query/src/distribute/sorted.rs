//! Sorts that a plan's other parts need no knowledge for.
//!
//! A column that a filter leaves one value of is left out of the sort below a window that parts its rows by it: where the filter is,
//! that is known. Behind a cut it is not, and there (DataFusion 55.2) the window refuses rows that are not ordered by all of its columns.

use std::sync::Arc;

use datafusion::{
    common::{
        Result,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr},
    physical_plan::{
        ChildrenPropertiesMode, ExecutionPlan, InputOrderMode, ReplaceChildrenOptions,
        sorts::sort::SortExec,
        windows::{BoundedWindowAggExec, WindowAggExec},
    },
};

/// The plan, in which a sort right below a window has all columns that the window parts its rows by.
pub(super) fn sorted_whole(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| match whole(&node) {
        Some(sort) => {
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Ok(Transformed::yes(node.replace_children(vec![sort], options)?))
        }
        None => Ok(Transformed::no(node)),
    })
    .data()
}

/// The sort below a window with what it lacks in front, which is the same in every row.
fn whole(node: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let parted = parted(node)?;
    let children = node.children();
    let sort = children.first()?.downcast_ref::<SortExec>()?;
    let lacks = |key: &Arc<dyn PhysicalExpr>| !sort.expr().iter().any(|by| by.expr.eq(key));
    let lacking: Vec<_> = parted.into_iter().filter(lacks).map(PhysicalSortExpr::new_default).collect();
    if lacking.is_empty() {
        return None;
    }
    let by = LexOrdering::new(lacking.into_iter().chain(sort.expr().iter().cloned()))?;
    let whole = SortExec::new(by, Arc::clone(sort.input()));
    Some(Arc::new(whole.with_preserve_partitioning(sort.preserve_partitioning()).with_fetch(sort.fetch())))
}

/// What a window parts its rows by, if it takes them in that order.
fn parted(node: &Arc<dyn ExecutionPlan>) -> Option<Vec<Arc<dyn PhysicalExpr>>> {
    if let Some(window) = node.downcast_ref::<WindowAggExec>() {
        return Some(window.window_expr().first()?.partition_by().to_vec());
    }
    let window = node.downcast_ref::<BoundedWindowAggExec>()?;
    let is_sorted = matches!(window.input_order_mode, InputOrderMode::Sorted);
    let parted = window.window_expr().first()?.partition_by().to_vec();
    is_sorted.then_some(parted)
}
