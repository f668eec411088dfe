//! First rows of a union in the order that was asked for.
//!
//! A column that is a constant in each branch of a union, but not the same in all, need not be compared within a branch, so
//! DataFusion (55.2) leaves it out of the sort below a merge. But sorts that keep only the first rows share between branches how far
//! down those reach, and a row that is ahead by what was left out is then lost: of `SELECT 1 AS place, … UNION ALL SELECT 0, … ORDER
//! BY place, time LIMIT 1` the row with the smallest time came back, whatever its place.

use std::sync::Arc;

use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions,
        projection::ProjectionExec,
        sorts::{sort::SortExec, sort_preserving_merge::SortPreservingMergeExec},
    },
};

/// A sort that keeps the first rows below a merge compares all that the merge compares. It comes after all other rules, which would
/// leave it out again.
#[derive(Debug)]
pub(crate) struct OrderedWhole;

impl PhysicalOptimizerRule for OrderedWhole {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| match whole(&node)? {
            Some(sort) => Ok(Transformed::yes(over(node, sort)?)),
            None => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "ordered_whole"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The sort below a merge, comparing as much as the merge, if it compares less. A projection between them goes below it.
fn whole(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(merge) = node.downcast_ref::<SortPreservingMergeExec>() else { return Ok(None) };
    let projection = merge.input().downcast_ref::<ProjectionExec>();
    let below = projection.map_or(merge.input(), ProjectionExec::input);
    let Some(sort) = below.downcast_ref::<SortExec>() else { return Ok(None) };
    if sort.fetch().is_none() || !sort.preserve_partitioning() || sort.expr().len() >= merge.expr().len() {
        return Ok(None);
    }
    let unsorted = Arc::clone(sort.input());
    let input = match projection {
        Some(_) => over(Arc::clone(merge.input()), unsorted)?,
        None => unsorted,
    };
    let whole = SortExec::new(merge.expr().clone(), input);
    Ok(Some(Arc::new(whole.with_preserve_partitioning(true).with_fetch(sort.fetch()))))
}

/// A node over another input.
fn over(node: Arc<dyn ExecutionPlan>, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    node.replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}
