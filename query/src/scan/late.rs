//! Columns that are decoded for those rows alone that come into question.
//!
//! Of the fifty largest of two million rows: once fifty are known, a row group is gone through by the column they are ordered by, and
//! the others are decoded where a row may take the place of one of them.

use std::sync::Arc;

use datafusion::{
    common::Result,
    datasource::{
        physical_plan::{FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource},
        source::DataSourceExec,
    },
    physical_expr::expressions::DynamicFilterTracking,
    physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions, sorts::sort::SortExec},
};

/// Rows of an answer that leave most of a table out.
const FEW_ROWS: usize = 1_000;
/// Operators that take rows out or pass them on, and need none to be there.
const PASSING: [&str; 5] =
    ["CoalescePartitionsExec", "CooperativeExec", "FilterExec", "ProjectionExec", "RepartitionExec"];

/// The plan, whose scans below the first few of an order filter while they decode.
pub(crate) fn late(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    below(plan, false)
}

fn below(plan: Arc<dyn ExecutionPlan>, are_few: bool) -> Result<Arc<dyn ExecutionPlan>> {
    let are_few = match plan.downcast_ref::<SortExec>() {
        Some(sort) => sort.fetch().is_some_and(|rows| rows <= FEW_ROWS),
        None => are_few && (PASSING.contains(&plan.name()) || plan.children().is_empty()),
    };
    if plan.children().is_empty() {
        return Ok(if are_few { filtering(&plan).unwrap_or(plan) } else { plan });
    }
    let children = plan.children().into_iter().map(|child| below(Arc::clone(child), are_few));
    let children = children.collect::<Result<Vec<_>>>()?;
    plan.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))
}

/// A scan that is told which rows may still be among the few, looking while it decodes.
fn filtering(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let config: &FileScanConfig = plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref()?;
    let source = config.file_source().downcast_ref::<ParquetSource>()?;
    source.filter().filter(|filter| DynamicFilterTracking::classify(filter).contains_dynamic_filter())?;
    let source = source.clone().with_pushdown_filters(true).with_reorder_filters(true);
    let config = FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source)).build();
    Some(DataSourceExec::from_data_source(config))
}
