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

/// A sort that keeps the first rows below a merge compares all that the merge compares. It comes after the rules that would leave it out
/// again, and before the one that hands down how far those rows reach.
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

/// The sort below a merge, comparing as much as the merge, if it compares less. Projections between them go below it.
fn whole(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(merge) = node.downcast_ref::<SortPreservingMergeExec>() else { return Ok(None) };
    let Some((unsorted, sort)) = unsorted(merge.input())? else { return Ok(None) };
    if sort.fetch().is_none() || !sort.preserve_partitioning() || sort.expr().len() >= merge.expr().len() {
        return Ok(None);
    }
    let whole = SortExec::new(merge.expr().clone(), unsorted);
    Ok(Some(Arc::new(whole.with_preserve_partitioning(true).with_fetch(sort.fetch()))))
}

/// The sort below any number of projections, and these without it.
fn unsorted(node: &Arc<dyn ExecutionPlan>) -> Result<Option<(Arc<dyn ExecutionPlan>, &SortExec)>> {
    if let Some(sort) = node.downcast_ref::<SortExec>() {
        return Ok(Some((Arc::clone(sort.input()), sort)));
    }
    let Some(projection) = node.downcast_ref::<ProjectionExec>() else { return Ok(None) };
    let Some((input, sort)) = unsorted(projection.input())? else { return Ok(None) };
    Ok(Some((over(Arc::clone(node), input)?, sort)))
}

/// A node over another input.
fn over(node: Arc<dyn ExecutionPlan>, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    node.replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

#[cfg(test)]
mod tests {
    use datafusion::{
        arrow::datatypes::{DataType, Field, Schema},
        execution::SessionStateBuilder,
        physical_expr::{LexOrdering, PhysicalSortExpr, expressions::col},
        physical_optimizer::optimizer::PhysicalOptimizer,
        physical_plan::{displayable, empty::EmptyExec},
        prelude::{SessionConfig, SessionContext},
    };

    use super::*;

    /// The sorts of a plan that keep first rows.
    fn sorts(plan: &dyn ExecutionPlan) -> Vec<String> {
        let text = displayable(plan).indent(false).to_string();
        text.lines().map(str::trim).filter(|line| line.starts_with("SortExec: TopK")).map(str::to_owned).collect()
    }

    /// The rule is needed as long as DataFusion by itself leaves the constant out, and then mends it.
    #[tokio::test]
    async fn constants_of_branches_are_compared_below_a_merge() {
        let sql = "SELECT t FROM (SELECT 1 AS place, value AS t FROM generate_series(1, 5) UNION ALL SELECT 0, value FROM generate_series(1, 3)) \
                   ORDER BY place, t DESC LIMIT 1";
        for (rules, is_whole) in [(PhysicalOptimizer::new().rules, false), (crate::session::physical_rules(), true)] {
            let state = SessionStateBuilder::new().with_default_features().with_physical_optimizer_rules(rules);
            let config = SessionConfig::new().with_target_partitions(4);
            let session = SessionContext::new_with_state(state.with_config(config).build());
            let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
            let sorts = sorts(plan.as_ref());
            assert!(!sorts.is_empty(), "{sorts:?}");
            assert_eq!(sorts.iter().all(|sort| sort.contains("place@")), is_whole, "{sorts:?}");
        }
    }

    #[test]
    fn a_sort_is_found_below_projections() {
        let schema = Arc::new(Schema::new(["place", "t"].map(|name| Field::new(name, DataType::Int64, true)).to_vec()));
        let by = |names: &[&str]| {
            let keys = names.iter().map(|name| PhysicalSortExpr::new_default(col(name, &schema).unwrap()));
            LexOrdering::new(keys).unwrap()
        };
        let through = |input: Arc<dyn ExecutionPlan>| -> Arc<dyn ExecutionPlan> {
            let columns = ["place", "t"].map(|name| (col(name, &schema).unwrap(), name.to_owned()));
            Arc::new(ProjectionExec::try_new(columns, input).unwrap())
        };
        for projections in 0..3 {
            let rows = Arc::new(EmptyExec::new(Arc::clone(&schema)).with_partitions(2));
            let sort = SortExec::new(by(&["t"]), rows).with_preserve_partitioning(true).with_fetch(Some(1));
            let below = (0..projections).fold(Arc::new(sort) as Arc<dyn ExecutionPlan>, |below, _| through(below));
            let merge: Arc<dyn ExecutionPlan> = Arc::new(SortPreservingMergeExec::new(by(&["place", "t"]), below));
            let mended = OrderedWhole.optimize(merge, &ConfigOptions::default()).unwrap();
            let sorts = sorts(mended.as_ref());
            assert!(sorts.len() == 1 && sorts[0].contains("place@0 ASC, t@1 ASC"), "{projections}: {sorts:?}");
        }
    }
}
