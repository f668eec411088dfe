//! Operators that stop: each asks before every batch whether its query still runs, and notes on the thread whom it works for.
//!
//! An aggregate may go through billions of rows without an await in between, but none without a batch from below. A join may: its
//! filter asks for it (see `plan::bound`).

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    common::{Result, tree_node::TreeNodeRecursion},
    execution::TaskContext,
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties,
        RecordBatchStream, ReplaceChildrenOptions, SendableRecordBatchStream, metrics::MetricsSet,
    },
};
use futures::{Stream, StreamExt};

use super::running::{Phase, Running};

/// The plan with every operator made stoppable.
pub(crate) fn stoppable(plan: Arc<dyn ExecutionPlan>, running: &Arc<Running>) -> Result<Arc<dyn ExecutionPlan>> {
    let children = plan.children().into_iter().map(|child| stoppable(Arc::clone(child), running));
    let children = children.collect::<Result<Vec<_>>>()?;
    let plan = if children.is_empty() {
        plan
    } else {
        plan.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))?
    };
    Ok(Stoppable::new(plan, running))
}

struct Stoppable {
    inner: Arc<dyn ExecutionPlan>,
    running: Arc<Running>,
}

impl Stoppable {
    #[expect(clippy::new_ret_no_self, reason = "plans are passed as what they can do")]
    fn new(inner: Arc<dyn ExecutionPlan>, running: &Arc<Running>) -> Arc<dyn ExecutionPlan> {
        Arc::new(Stoppable { inner, running: Arc::clone(running) })
    }
}

impl fmt::Debug for Stoppable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl DisplayAs for Stoppable {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stoppable")
    }
}

impl ExecutionPlan for Stoppable {
    fn name(&self) -> &'static str {
        "Stoppable"
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.inner.as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.inner]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let inner = children.pop().unwrap_or_else(|| Arc::clone(&self.inner));
        Ok(Stoppable::new(inner, &self.running))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.running.check()?;
        let _entered = self.running.enter(Phase::Executing);
        let inner = self.inner.execute(partition, context)?;
        Ok(Box::pin(Stopping { inner, running: Arc::clone(&self.running) }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.inner.metrics()
    }
}

struct Stopping {
    inner: SendableRecordBatchStream,
    running: Arc<Running>,
}

impl Stream for Stopping {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        self.running.check()?;
        let _entered = self.running.enter(Phase::Executing);
        self.inner.poll_next_unpin(context)
    }
}

impl RecordBatchStream for Stopping {
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }
}
