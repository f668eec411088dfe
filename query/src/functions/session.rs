//! A session with our functions and nothing else of ours, for their tests.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use datafusion::{
    common::Result,
    datasource::MemTable,
    execution::FunctionRegistry,
    prelude::{SessionConfig, SessionContext},
};

/// A session over `partitions` partitions; one of its settings may be changed.
pub(super) fn session(partitions: usize, change: impl FnOnce(&mut SessionConfig)) -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(partitions);
    change(&mut config);
    let mut state = SessionContext::new_with_config(config).state();
    for function in super::scalar() {
        state.register_udf(function).expect("registered");
    }
    for function in super::aggregate() {
        state.register_udaf(function).expect("registered");
    }
    SessionContext::new_with_state(state)
}

/// Registers the columns as table `t`, dealt over the partitions in small batches.
pub(super) fn table(session: &SessionContext, partitions: usize, columns: Vec<(&str, ArrayRef)>) {
    let whole = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).expect("rows");
    let mut parts = vec![Vec::new(); partitions];
    for (at, from) in (0..whole.num_rows()).step_by(500).enumerate() {
        parts[at % partitions].push(whole.slice(from, 500.min(whole.num_rows() - from)));
    }
    let provider = MemTable::try_new(whole.schema(), parts).expect("a table");
    session.register_table("t", Arc::new(provider)).expect("registered");
}

/// The only column of the answer.
pub(super) async fn column(session: &SessionContext, sql: &str) -> ArrayRef {
    try_column(session, sql).await.unwrap_or_else(|error| panic!("{error} from {sql}"))
}

pub(super) async fn try_column(session: &SessionContext, sql: &str) -> Result<ArrayRef> {
    let frame = session.sql(sql).await?;
    let schema = Arc::clone(frame.schema().inner());
    let batches = frame.collect().await?;
    Ok(Arc::clone(arrow::compute::concat_batches(&schema, &batches)?.column(0)))
}

/// The only number of the answer, NULL as `None`.
pub(super) async fn number(session: &SessionContext, sql: &str) -> Option<f64> {
    let column = column(session, sql).await;
    let numbers = column.as_primitive::<arrow::datatypes::Float64Type>();
    assert_eq!(numbers.len(), 1, "{sql}");
    numbers.iter().next().flatten()
}

/// Why the statement is refused.
pub(super) async fn refusal(session: &SessionContext, sql: &str) -> String {
    try_column(session, sql).await.expect_err(sql).to_string()
}
