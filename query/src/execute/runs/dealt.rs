//! The rows of a partition, each batch dealt to the way that suits it.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    common::{Result, internal_datafusion_err, tree_node::TreeNodeRecursion},
    execution::TaskContext,
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties, RecordBatchStream,
        SendableRecordBatchStream,
        aggregates::AggregateExec,
        metrics::{Count, MetricBuilder},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{Stream, StreamExt, stream};
use parking_lot::Mutex;

use super::{ByRuns, Collapse, Runs, over};

/// Batches of rows without runs between two looks at whether there are some again.
const BATCHES_BETWEEN_LOOKS: usize = 16;
/// Times that rows of a partition go into a hash table of their own. Each hands on all its keys, so the last one takes what is left.
const TABLES_MAX: usize = 16;

/// What the step hands on: states over runs while there are some, over what a hash table holds of the others.
pub(super) fn states(step: &ByRuns, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
    let input = step.partial.input().execute(partition, Arc::clone(&context))?;
    let count = |name| MetricBuilder::new(&step.metrics).counter(name, partition);
    let dealing = Dealing {
        input: Arc::new(Mutex::new(Input { rows: input, kept: None })),
        collapse: Collapse::new(Arc::clone(&step.partial))?,
        table: None,
        tables: Arc::clone(&step.tables),
        tables_made: 0,
        partition,
        context,
        rows_in_runs: count("rows_in_runs"),
        runs: count("runs"),
    };
    let states =
        stream::try_unfold(
            dealing,
            |mut dealing| async move { Ok(dealing.next().await?.map(|states| (states, dealing))) },
        );
    Ok(Box::pin(RecordBatchStreamAdapter::new(step.partial.schema(), states)))
}

struct Dealing {
    input: Arc<Mutex<Input>>,
    collapse: Collapse,
    /// What the hash table hands on whose turn it is.
    table: Option<SendableRecordBatchStream>,
    tables: Arc<Mutex<Vec<Arc<dyn ExecutionPlan>>>>,
    tables_made: usize,
    partition: usize,
    context: Arc<TaskContext>,
    rows_in_runs: Count,
    runs: Count,
}

impl Dealing {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(table) = &mut self.table {
                if let Some(states) = table.next().await.transpose()? {
                    return Ok(Some(states));
                }
                self.table = None;
            }
            let Some(batch) = Next(&self.input).await.transpose()? else {
                return if self.collapse.runs > 0 { self.collapse.take().map(Some) } else { Ok(None) };
            };
            if batch.num_rows() == 0 {
                continue;
            }
            let runs = Runs::of(&self.collapse.partial, &batch)?;
            if runs.are_long() == Some(false) {
                self.input.lock().kept = Some(batch);
                self.table = Some(self.table()?);
                if self.collapse.runs > 0 {
                    return self.collapse.take().map(Some);
                }
                continue;
            }
            self.rows_in_runs.add(batch.num_rows());
            self.runs.add(runs.starts.len());
            self.collapse.add(&runs, &batch)?;
            if self.collapse.is_full() {
                return self.collapse.take().map(Some);
            }
        }
    }

    /// A hash table over the rows from here on, until there are runs again.
    fn table(&mut self) -> Result<SendableRecordBatchStream> {
        self.tables_made += 1;
        let partial = &self.collapse.partial;
        let rows = Rows {
            schema: partial.input().schema(),
            input: Arc::clone(&self.input),
            partial: Arc::clone(partial),
            batches: 0,
            is_last: self.tables_made >= TABLES_MAX,
        };
        let given =
            Given { rows: Mutex::new(Some(Box::pin(rows))), properties: Arc::clone(partial.input().properties()) };
        let table = over(partial, Arc::new(given))?;
        self.tables.lock().push(Arc::clone(&table));
        table.execute(self.partition, Arc::clone(&self.context))
    }
}

/// The rows of a partition, and one batch of them that was looked at.
struct Input {
    rows: SendableRecordBatchStream,
    kept: Option<RecordBatch>,
}

impl Input {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        match self.kept.take() {
            Some(kept) => Poll::Ready(Some(Ok(kept))),
            None => self.rows.poll_next_unpin(context),
        }
    }
}

/// The next batch; nobody else reads meanwhile.
struct Next<'a>(&'a Mutex<Input>);

impl Future for Next<'_> {
    type Output = Option<Result<RecordBatch>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.lock().poll_next(context)
    }
}

/// Rows for a hash table. They end where runs begin.
struct Rows {
    schema: SchemaRef,
    input: Arc<Mutex<Input>>,
    partial: Arc<AggregateExec>,
    batches: usize,
    is_last: bool,
}

impl Stream for Rows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        let polled = self.input.lock().poll_next(context);
        let Poll::Ready(Some(Ok(batch))) = &polled else { return polled };
        self.batches += 1;
        if !self.is_last
            && self.batches.is_multiple_of(BATCHES_BETWEEN_LOOKS)
            && Runs::of(&self.partial, batch)?.are_long() == Some(true)
        {
            self.input.lock().kept = Some(batch.clone());
            return Poll::Ready(None);
        }
        polled
    }
}

impl RecordBatchStream for Rows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// An operator whose rows are there already, of one partition.
struct Given {
    rows: Mutex<Option<SendableRecordBatchStream>>,
    properties: Arc<PlanProperties>,
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Given")
    }
}

impl DisplayAs for Given {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Given")
    }
}

impl ExecutionPlan for Given {
    fn name(&self) -> &'static str {
        "Given"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.rows.lock().take().ok_or_else(|| internal_datafusion_err!("rows that are read once are asked for again"))
    }
}
