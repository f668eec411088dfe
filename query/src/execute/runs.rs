//! Aggregates over rows whose keys come in runs.
//!
//! The lake's files are sorted, so that equal keys stand side by side: all tokens of a call have its model, tenant and host. There,
//! what the first step of an aggregate hands on is found without a hash table: the last step adds up what has equal keys anyway.
//!
//! ```text
//! rows ─► runs: neighbours with equal keys ─► the aggregates' states over each ─► states
//! rows ─► hash table ───────────────────────────────────────────────────────────► states      where there are none
//! ```

mod dealt;

use std::{fmt, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array},
    buffer::BooleanBuffer,
    compute::{concat, kernels::cmp::distinct, take},
    datatypes::{DataType, SchemaRef},
};
use datafusion::{
    common::{Result, internal_datafusion_err, internal_err, tree_node::TreeNodeRecursion},
    execution::TaskContext,
    logical_expr::{EmitTo, GroupsAccumulator},
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties,
        ReplaceChildrenOptions, SendableRecordBatchStream,
        aggregates::{AggregateExec, AggregateMode, aggregate_expressions, evaluate_group_by, evaluate_many},
        metrics::{ExecutionPlanMetricsSet, MetricsSet},
    },
};
use parking_lot::Mutex;

/// Rows of a mean run from which runs are worth their own states: the last step takes several times as long for a state as the first
/// step's hash table for a row.
const RUN_ROWS_MIN: usize = 16;
/// Rows of a batch that says anything about runs.
const TELLING_ROWS: usize = 1_024;
/// Runs whose states go up together.
const RUNS_AT_ONCE: usize = 4_096;
/// Batches of which the keys are held for that.
const BATCHES_AT_ONCE: usize = 16;

/// The plan, in which each first step of an aggregate makes use of runs where it finds some.
pub(super) fn by_runs(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let children = plan.children().into_iter().map(|child| by_runs(Arc::clone(child))).collect::<Result<Vec<_>>>()?;
    let plan = if children.is_empty() {
        plan
    } else {
        plan.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))?
    };
    let partial = plan.downcast_ref::<AggregateExec>().filter(|aggregate| may_run(aggregate)).cloned();
    Ok(match partial {
        Some(partial) => Arc::new(ByRuns::new(partial)),
        None => plan,
    })
}

/// Whether keys can be compared with their neighbours, and states of a run take little more than a row does.
fn may_run(aggregate: &AggregateExec) -> bool {
    let group_by = aggregate.group_expr();
    let groups = *aggregate.mode() == AggregateMode::Partial
        && group_by.is_single()
        && !group_by.is_true_no_grouping()
        && aggregate.limit_options().is_none();
    let schema = aggregate.schema();
    let keys = schema.fields().iter().take(group_by.num_group_exprs());
    let are_plain = |kind: &DataType| kind.is_primitive() || kind.is_string() || *kind == DataType::Boolean;
    groups
        && keys.map(|field| field.data_type()).all(are_plain)
        && schema.fields().iter().skip(group_by.num_group_exprs()).all(|field| field.data_type().is_primitive())
        && aggregate.aggr_expr().iter().all(|function| {
            function.groups_accumulator_supported() && !function.is_distinct() && function.order_bys().is_empty()
        })
}

/// The first step of an aggregate.
struct ByRuns {
    partial: Arc<AggregateExec>,
    metrics: ExecutionPlanMetricsSet,
    /// The hash tables that rows without runs went into.
    tables: Arc<Mutex<Vec<Arc<dyn ExecutionPlan>>>>,
}

impl ByRuns {
    fn new(partial: AggregateExec) -> ByRuns {
        ByRuns { partial: Arc::new(partial), metrics: ExecutionPlanMetricsSet::new(), tables: Arc::default() }
    }
}

/// The same step over other rows.
fn over(partial: &Arc<AggregateExec>, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let partial = Arc::clone(partial) as Arc<dyn ExecutionPlan>;
    partial.replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))
}

impl fmt::Debug for ByRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.partial.fmt(f)
    }
}

impl DisplayAs for ByRuns {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.partial.fmt_as(format, f)
    }
}

impl ExecutionPlan for ByRuns {
    fn name(&self) -> &'static str {
        "ByRuns"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.partial.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.partial.maintains_input_order()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.partial.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.partial.apply_expressions(f)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop() else { return internal_err!("an aggregate has an input") };
        let partial = over(&self.partial, input)?;
        let Some(partial) = partial.downcast_ref::<AggregateExec>().cloned() else {
            return internal_err!("an aggregate with another input is an aggregate");
        };
        Ok(Arc::new(ByRuns::new(partial)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        dealt::states(self, partition, context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut all = self.metrics.clone_inner();
        for metric in self
            .tables
            .lock()
            .iter()
            .filter_map(|table| table.metrics())
            .flat_map(|of| of.iter().cloned().collect::<Vec<_>>())
        {
            all.push(metric);
        }
        Some(all)
    }
}

/// One batch's keys in runs.
struct Runs {
    rows: usize,
    /// First row of each run.
    starts: Vec<u32>,
    keys: Vec<ArrayRef>,
}

impl Runs {
    fn of(aggregate: &AggregateExec, batch: &RecordBatch) -> Result<Runs> {
        let mut groupings = evaluate_group_by(aggregate.group_expr(), batch)?;
        let keys = groupings.pop().unwrap_or_default();
        Ok(Runs { rows: batch.num_rows(), starts: starts(&keys, batch.num_rows())?, keys })
    }

    /// Whether rows are better told run by run; `None` of too few to tell.
    fn are_long(&self) -> Option<bool> {
        (self.rows >= TELLING_ROWS).then_some(self.starts.len() * RUN_ROWS_MIN <= self.rows)
    }

    /// One row of keys a run.
    fn keys(&self) -> Result<Vec<ArrayRef>> {
        let starts = UInt32Array::from(self.starts.clone());
        self.keys.iter().map(|key| Ok(take(key, &starts, None)?)).collect()
    }

    /// The run of each row, counted from `first`.
    fn number(&self, first: usize, into: &mut Vec<usize>) {
        into.clear();
        let ends = self.starts.iter().skip(1).map(|start| *start as usize).chain([self.rows]);
        for (run, end) in ends.enumerate() {
            into.resize(end, first + run);
        }
    }
}

fn starts(keys: &[ArrayRef], rows: usize) -> Result<Vec<u32>> {
    let Some(pairs) = rows.checked_sub(1) else { return Ok(Vec::new()) };
    let mut changes = BooleanBuffer::new_unset(pairs);
    for key in keys {
        changes = &changes | &differs(key, pairs)?;
    }
    let row = |at: usize| u32::try_from(at).map_err(|_| internal_datafusion_err!("a batch of {rows} rows"));
    std::iter::once(Ok(0)).chain(changes.set_indices().map(|at| row(at + 1))).collect()
}

/// Whether each row but the first has another value than the one before it. Where that is dear to find out, a value may be taken for
/// another: a run is then two.
fn differs(key: &ArrayRef, pairs: usize) -> Result<BooleanBuffer> {
    let Some(text) = key.as_string_view_opt() else {
        return Ok(distinct(&key.slice(0, pairs), &key.slice(1, pairs))?.values().clone());
    };
    // Equal views show the same text; that a dictionary decodes to equal views is what makes runs of long texts.
    let (before, after) = (&text.views()[..pairs], &text.views()[1..]);
    let differ = |at: usize| before[at] != after[at];
    Ok(match text.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => BooleanBuffer::collect_bool(pairs, differ),
        Some(nulls) => BooleanBuffer::collect_bool(pairs, |at| {
            let known = nulls.is_valid(at);
            known != nulls.is_valid(at + 1) || (known && differ(at))
        }),
    })
}

/// The aggregates' states over runs that have not gone up.
struct Collapse {
    partial: Arc<AggregateExec>,
    arguments: Vec<Vec<Arc<dyn PhysicalExpr>>>,
    accumulators: Vec<Box<dyn GroupsAccumulator>>,
    /// Keys of the runs, by batch.
    keys: Vec<Vec<ArrayRef>>,
    runs: usize,
    /// Run of each row of a batch.
    numbers: Vec<usize>,
}

impl Collapse {
    fn new(partial: Arc<AggregateExec>) -> Result<Collapse> {
        let functions = partial.aggr_expr();
        let accumulators =
            functions.iter().map(|function| function.create_groups_accumulator()).collect::<Result<_>>()?;
        let arguments = aggregate_expressions(functions, partial.mode(), partial.group_expr().num_group_exprs())?;
        Ok(Collapse { arguments, accumulators, partial, keys: Vec::new(), runs: 0, numbers: Vec::new() })
    }

    fn add(&mut self, runs: &Runs, batch: &RecordBatch) -> Result<()> {
        runs.number(self.runs, &mut self.numbers);
        self.runs += runs.starts.len();
        self.keys.push(runs.keys()?);
        let values = evaluate_many(&self.arguments, batch)?;
        let filters = self.partial.filter_expr();
        for ((accumulator, values), filter) in self.accumulators.iter_mut().zip(values).zip(filters) {
            let filter = filter.as_ref().map(|filter| truth(filter, batch)).transpose()?;
            accumulator.update_batch(&values, &self.numbers, filter.as_ref(), self.runs)?;
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.runs >= RUNS_AT_ONCE || self.keys.len() >= BATCHES_AT_ONCE
    }

    fn take(&mut self) -> Result<RecordBatch> {
        let schema: SchemaRef = self.partial.schema();
        let batches = std::mem::take(&mut self.keys);
        let mut columns = Vec::with_capacity(schema.fields().len());
        for key in 0..self.partial.group_expr().num_group_exprs() {
            let parts: Vec<&dyn Array> = batches.iter().filter_map(|keys| keys.get(key)).map(AsRef::as_ref).collect();
            columns.push(concat(&parts)?);
        }
        for accumulator in &mut self.accumulators {
            columns.extend(accumulator.state(EmitTo::All)?);
        }
        self.runs = 0;
        Ok(RecordBatch::try_new(schema, columns)?)
    }
}

fn truth(filter: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<BooleanArray> {
    let truth = filter.evaluate(batch)?.into_array(batch.num_rows())?;
    let truth = truth.as_boolean_opt().cloned();
    truth.ok_or_else(|| internal_datafusion_err!("a filter of an aggregate is no condition"))
}

#[cfg(test)]
mod tests;
