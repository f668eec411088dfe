//! Operators below joins, unnests and windows that look at the rows on their way up: what those would write out many times over, or
//! keep without counting it, is bounded here. On one machine and on every worker alike.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    datatypes::{DataType, SchemaRef},
};
use datafusion::{
    common::{Result, resources_err, tree_node::TreeNodeRecursion, utils::memory::RecordBatchMemoryCounter},
    execution::{
        TaskContext,
        memory_pool::{MemoryConsumer, MemoryReservation},
    },
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties,
        RecordBatchStream, ReplaceChildrenOptions, SendableRecordBatchStream,
    },
};
use datafusion_distributed::NetworkBoundaryExt;
use futures::{Stream, StreamExt};

/// The most bytes of a value that a join writes once for every match: a batch of 8,192 copies takes 512 MiB.
const REPEATED_BYTES_MAX: usize = 64 << 10;

/// The plan with a guard below every operator that repeats or holds what it reads. What lies on other machines is guarded there.
pub(crate) fn guarded(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.children().is_empty() || plan.is_network_boundary() {
        return Ok(plan);
    }
    let above = Above::of(plan.name());
    let (mut children, mut is_changed) = (Vec::with_capacity(plan.children().len()), above.is_some());
    for child in plan.children() {
        let inner = guarded(Arc::clone(child))?;
        is_changed |= !Arc::ptr_eq(child, &inner);
        children.push(match above {
            Some(above) => Arc::new(Guard { inner, above }),
            None => inner,
        });
    }
    if !is_changed {
        return Ok(plan);
    }
    plan.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))
}

/// What the operator above does with rows, as far as it matters below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Above {
    /// It writes one row of its input down again for every match.
    Repeats,
    /// It keeps all of its input until the last row, and counts none of it.
    Holds,
}

impl Above {
    fn of(operator: &str) -> Option<Above> {
        match operator {
            "UnnestExec" => Some(Above::Repeats),
            "WindowAggExec" => Some(Above::Holds),
            join => join.contains("Join").then_some(Above::Repeats),
        }
    }
}

#[derive(Debug)]
struct Guard {
    inner: Arc<dyn ExecutionPlan>,
    above: Above,
}

impl DisplayAs for Guard {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}

impl ExecutionPlan for Guard {
    fn name(&self) -> &'static str {
        "Guard"
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
        Ok(Arc::new(Guard { inner, above: self.above }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let held = (self.above == Above::Holds).then(|| Held::of(&context));
        let inner = self.inner.execute(partition, context)?;
        Ok(Box::pin(Guarded { inner, held }))
    }
}

struct Guarded {
    inner: SendableRecordBatchStream,
    /// Of an operator that holds; the others repeat.
    held: Option<Held>,
}

/// What the operator above holds of the rows that went up, charged to the query for as long as it reads them.
struct Held {
    bytes: RecordBatchMemoryCounter,
    reservation: MemoryReservation,
}

impl Held {
    fn of(context: &TaskContext) -> Held {
        let reservation = MemoryConsumer::new("a window over whole partitions").register(context.memory_pool());
        Held { bytes: RecordBatchMemoryCounter::new(), reservation }
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        self.bytes.count_batch(batch);
        self.reservation.try_resize(self.bytes.memory_usage())
    }
}

impl Stream for Guarded {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        let polled = self.inner.poll_next_unpin(context);
        if let Poll::Ready(Some(Ok(batch))) = &polled {
            match &mut self.held {
                Some(held) => held.add(batch)?,
                None => check_values(batch, REPEATED_BYTES_MAX)?,
            }
        }
        polled
    }
}

impl RecordBatchStream for Guarded {
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }
}

/// # Errors
/// `ResourcesExhausted` if a value is so large that a batch of copies of it would be past its bound.
fn check_values(batch: &RecordBatch, bytes_max: usize) -> Result<()> {
    for (column, field) in batch.columns().iter().zip(batch.schema().fields()) {
        let widest = widest_value(column);
        if widest > bytes_max {
            return resources_err!(
                "`{}` holds a value of {widest} bytes, which a join or unnest may write once per row; the most is {bytes_max} bytes: \
                 shorten it with left(), or share it with arrow_cast(…, 'Utf8View')",
                field.name()
            );
        }
    }
    Ok(())
}

/// Bytes of the largest value, where copies of it take as much again: views share what they show.
pub(super) fn widest_value(column: &ArrayRef) -> usize {
    fn widest<O: Into<i64> + Copy>(offsets: &[O], element_bytes: usize) -> usize {
        let lengths = offsets.windows(2).map(|pair| pair[1].into().saturating_sub(pair[0].into()));
        usize::try_from(lengths.max().unwrap_or(0)).unwrap_or(0).saturating_mul(element_bytes)
    }
    match column.data_type() {
        DataType::Utf8 => widest(column.as_string::<i32>().value_offsets(), 1),
        DataType::LargeUtf8 => widest(column.as_string::<i64>().value_offsets(), 1),
        DataType::Binary => widest(column.as_binary::<i32>().value_offsets(), 1),
        DataType::LargeBinary => widest(column.as_binary::<i64>().value_offsets(), 1),
        DataType::List(_) => {
            let list = column.as_list::<i32>();
            widest(list.value_offsets(), element_bytes(list.values()))
        }
        DataType::LargeList(_) => {
            let list = column.as_list::<i64>();
            widest(list.value_offsets(), element_bytes(list.values()))
        }
        DataType::Map(..) => {
            let map = column.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            widest(map.value_offsets(), element_bytes(&entries))
        }
        DataType::FixedSizeBinary(width) => usize::try_from(*width).unwrap_or(0),
        DataType::FixedSizeList(_, length) => {
            usize::try_from(*length).unwrap_or(0).saturating_mul(element_bytes(column.as_fixed_size_list().values()))
        }
        DataType::Struct(_) => column.as_struct().columns().iter().map(widest_value).sum(),
        _ => 0,
    }
}

/// Mean bytes of a list's element, at least one.
fn element_bytes(values: &ArrayRef) -> usize {
    let bytes = values.to_data().get_slice_memory_size().unwrap_or(0);
    (bytes / values.len().max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        ArrayRef, FixedSizeBinaryArray, FixedSizeListArray, Int64Array, ListArray, RecordBatch, StringArray,
        StringViewArray,
    };
    use arrow::datatypes::Int64Type;

    use super::{REPEATED_BYTES_MAX, check_values, widest_value};

    #[test]
    fn the_widest_value_counts_and_views_share_theirs() {
        let text = "x".repeat(500);
        let strings: ArrayRef = Arc::new(StringArray::from(vec!["a", &text, "b"]));
        assert_eq!(widest_value(&strings), 500);
        let views: ArrayRef = Arc::new(StringViewArray::from(vec![text.as_str()]));
        assert_eq!(widest_value(&views), 0);
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1); 3]), Some(vec![Some(1); 7])]);
        assert_eq!(widest_value(&(Arc::new(lists) as ArrayRef)), 56);
        assert_eq!(widest_value(&(Arc::new(Int64Array::from(vec![1])) as ArrayRef)), 0);
    }

    /// Values of a fixed width are copied for every match like any other.
    #[test]
    fn a_fixed_width_is_a_width() {
        let batch = |width: usize| {
            let binary = FixedSizeBinaryArray::try_from_iter([vec![0_u8; width]].into_iter()).expect("binary");
            let numbers = FixedSizeListArray::from_iter_primitive::<Int64Type, _, _>(
                [Some(vec![Some(1); width / 8])],
                (width / 8) as i32,
            );
            let columns: [(&str, ArrayRef); 2] = [("b", Arc::new(binary)), ("n", Arc::new(numbers))];
            columns.map(|column| RecordBatch::try_from_iter([column]).expect("a batch"))
        };
        for batch in batch(REPEATED_BYTES_MAX) {
            assert!(check_values(&batch, REPEATED_BYTES_MAX).is_ok());
        }
        for batch in batch(REPEATED_BYTES_MAX + 8) {
            let error = check_values(&batch, REPEATED_BYTES_MAX).expect_err("too wide").to_string();
            assert!(error.contains("a join or unnest"), "{error}");
        }
    }
}
