//! Functions over windows whose results are large: a text, a list or a distribution for every row.
//!
//! An aggregate gives one result a group; over a window it gives one a row, each a copy. `array_agg(x) OVER (ORDER BY x)` over n rows
//! holds n²/2 values, and `first_value(text) OVER ()` the same text n times, none of which the engine counts. Here what is given is
//! counted: charged to the query as it is made, and given back when the partition is done.

mod aggregate;
mod ranked;

use std::{collections::VecDeque, sync::Arc};

use datafusion::{
    common::{DFSchema, Result, ScalarValue, resources_err},
    execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation},
    logical_expr::{
        AggregateUDF, Expr, ExprSchemable, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
        WindowUDF, expr::WindowFunction,
    },
};

use super::bounded::is_small;
use crate::execute::running;
use aggregate::Aggregate;
use ranked::Ranked;

/// Rows of a batch, the engine's default: of a window that is computed as rows come, so many results are held at once.
const BATCH_ROWS: usize = 8_192;
/// Functions that can be computed as rows come, besides aggregates; every other is computed when its partition is there.
const STREAMED: [&str; 8] =
    ["dense_rank", "first_value", "lag", "last_value", "lead", "nth_value", "rank", "row_number"];
/// Results that are counted together before they are charged.
const CHARGED_BYTES_STEP: usize = 256 << 10;

/// How many results of a window are held at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Held {
    /// Those of a batch.
    Batch,
    /// Those of the whole partition.
    Partition,
}

impl Held {
    /// Of the windows that one operator computes: it waits for the whole partition if any of them needs it.
    pub(crate) fn by(windows: &[Expr]) -> Held {
        let streamed = |window: &Expr| match window.clone().unalias() {
            Expr::WindowFunction(window) => {
                let is_known = match &window.fun {
                    WindowFunctionDefinition::AggregateUDF(_) => true,
                    WindowFunctionDefinition::WindowUDF(function) => STREAMED.contains(&function.name()),
                };
                is_known && !window.params.window_frame.end_bound.is_unbounded()
            }
            _ => false,
        };
        if windows.iter().all(streamed) { Held::Batch } else { Held::Partition }
    }
}

/// The window with its results counted, unless each is a few bytes.
pub(crate) fn counted(mut window: WindowFunction, held: Held, bytes_max: usize, schema: &DFSchema) -> WindowFunction {
    let kind = Expr::from(window.clone()).get_type(schema);
    if kind.is_ok_and(|kind| is_small(&kind)) {
        return window;
    }
    let limits = Limits { held, bytes_max, is_repeated: is_one_frame(&window) };
    window.fun = match window.fun {
        WindowFunctionDefinition::AggregateUDF(function) => {
            let counted = Aggregate { inner: Arc::unwrap_or_clone(function), limits };
            WindowFunctionDefinition::AggregateUDF(Arc::new(AggregateUDF::from(counted)))
        }
        WindowFunctionDefinition::WindowUDF(function) => {
            let counted = Ranked { inner: Arc::unwrap_or_clone(function), limits };
            WindowFunctionDefinition::WindowUDF(Arc::new(WindowUDF::from(counted)))
        }
    };
    window
}

/// Whether all rows of a partition have the same frame: the engine computes one result and repeats it.
fn is_one_frame(window: &WindowFunction) -> bool {
    let WindowFrame { units, start_bound, end_bound, .. } = &window.params.window_frame;
    let has_no_order = *units == WindowFrameUnits::Range && window.params.order_by.is_empty();
    let is_open =
        |bound: &WindowFrameBound| bound.is_unbounded() || (has_no_order && *bound == WindowFrameBound::CurrentRow);
    is_open(start_bound) && is_open(end_bound)
}

/// What a function's results may come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Limits {
    held: Held,
    /// Bytes of the results of one batch.
    bytes_max: usize,
    /// Whether one result stands for every row that was seen.
    is_repeated: bool,
}

/// The results of one partition.
#[derive(Debug)]
struct Results {
    name: String,
    limits: Limits,
    /// Bytes of those that are held, oldest first; kept where older ones go.
    sizes: VecDeque<usize>,
    bytes: usize,
    charged: usize,
    reservation: Option<MemoryReservation>,
}

impl Results {
    fn new(name: &str, limits: Limits) -> Results {
        Results { name: name.to_owned(), limits, sizes: VecDeque::new(), bytes: 0, charged: 0, reservation: None }
    }

    /// One more result, which stands for so many rows.
    ///
    /// # Errors
    /// The limit that it passes, or that the query was stopped.
    fn add(&mut self, result: &ScalarValue, rows: usize) -> Result<()> {
        running::check()?;
        let bytes = result.size().saturating_mul(rows.max(1));
        self.bytes = self.bytes.saturating_add(bytes);
        if self.limits.held == Held::Batch {
            self.sizes.push_back(bytes);
            if self.sizes.len() > BATCH_ROWS {
                self.bytes -= self.sizes.pop_front().unwrap_or(0);
            }
            if self.bytes > self.limits.bytes_max {
                return resources_err!(
                    "{}() OVER a window makes {} bytes for a batch of rows, more than the {} that one column of a batch may have \
                     (query.column_bytes_max)",
                    self.name,
                    self.bytes,
                    self.limits.bytes_max
                );
            }
        }
        self.charge()
    }

    /// Takes from the query's memory what is held, or gives back what no longer is, in steps.
    fn charge(&mut self) -> Result<()> {
        if self.bytes.abs_diff(self.charged) < CHARGED_BYTES_STEP {
            return Ok(());
        }
        let Some((running, _)) = running::current() else { return Ok(()) };
        let reservation = self.reservation.get_or_insert_with(|| {
            let pool = Arc::clone(&running.memory) as Arc<dyn MemoryPool>;
            MemoryConsumer::new(format!("{}() OVER a window", self.name)).register(&pool)
        });
        reservation.try_resize(self.bytes)?;
        self.charged = self.bytes;
        Ok(())
    }
}
