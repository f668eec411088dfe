//! Runs say what rows say.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray, UInt32Array},
    compute::take,
    util::pretty::pretty_format_batches,
};
use datafusion::{
    datasource::MemTable,
    execution::{memory_pool::GreedyMemoryPool, runtime_env::RuntimeEnvBuilder},
    physical_plan::{ExecutionPlan, collect},
    prelude::{SessionConfig, SessionContext},
};

use super::{ByRuns, TELLING_ROWS, by_runs};

/// Rows of a piece, of which each of the two partitions has some.
const ROWS: u32 = 20_000;
/// Rows of a batch.
const BATCH_ROWS: u32 = TELLING_ROWS as u32;

/// Calls of `length` rows each: a long id, one of three models or none, numbers, and a time that goes up.
fn batches(length: u32, from: u32) -> Vec<RecordBatch> {
    let calls = ROWS / length + 1;
    let ids: ArrayRef =
        Arc::new(StringViewArray::from_iter_values((0..calls).map(|call| format!("{:032x}", from + call))));
    let models: ArrayRef =
        Arc::new(StringViewArray::from(vec![Some("llama-3-70b-instruct-of-a-long-name"), Some("qwen"), None]));
    let batch = |start: u32| {
        let rows = || start..(start + BATCH_ROWS).min(ROWS);
        let by_call = UInt32Array::from_iter_values(rows().map(|row| row / length));
        let by_model = UInt32Array::from_iter_values(rows().map(|row| (from + row / length) % 3));
        let numbers = rows().map(|row| (row % 7 != 0).then_some(i64::from(row * 31 % 97)));
        let columns: [(&str, ArrayRef); 5] = [
            ("id", take(&ids, &by_call, None).unwrap()),
            ("model", take(&models, &by_model, None).unwrap()),
            ("n", Arc::new(Int64Array::from_iter(numbers))),
            ("x", Arc::new(Float64Array::from_iter_values(rows().map(|row| f64::from(row % 13))))),
            (
                "time",
                Arc::new(TimestampMicrosecondArray::from_iter_values(rows().map(|row| i64::from(row) * 10_000_000))),
            ),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
    };
    (0..ROWS).step_by(BATCH_ROWS as usize).map(batch).collect()
}

/// Table `t`, whose pieces have calls of these lengths.
fn session(lengths: &[u32]) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(2);
    let pool = Arc::new(GreedyMemoryPool::new(1 << 30));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
    let session = SessionContext::new_with_config_rt(config, runtime);
    let part = |from: u32| {
        let pieces = lengths.iter().zip(0_u32..).map(|(length, piece)| batches(*length, from + piece * ROWS));
        pieces.flatten().collect::<Vec<_>>()
    };
    let parts = vec![part(0), part(1_000_000)];
    let table = MemTable::try_new(parts[0][0].schema(), parts).unwrap();
    session.register_table("t", Arc::new(table)).unwrap();
    session
}

/// The first steps that may go in runs.
fn steps(plan: &Arc<dyn ExecutionPlan>) -> Vec<Arc<dyn ExecutionPlan>> {
    let own = plan.downcast_ref::<ByRuns>().map(|_| Arc::clone(plan));
    own.into_iter().chain(plan.children().into_iter().flat_map(steps)).collect()
}

/// The answer as rows go one by one and as they go in runs, both sorted, and how many rows went in runs in the lowest step; `None` if
/// no step may.
async fn both(session: &SessionContext, sql: &str) -> (String, String, Option<usize>) {
    let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    let in_runs = by_runs(Arc::clone(&plan)).unwrap();
    let mut said = [String::new(), String::new()];
    for (said, plan) in said.iter_mut().zip([plan, Arc::clone(&in_runs)]) {
        let rows = collect(plan, session.task_ctx()).await.unwrap();
        let text = pretty_format_batches(&rows).unwrap().to_string();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        *said = lines.join("\n");
    }
    let counted =
        |step: &Arc<dyn ExecutionPlan>| step.metrics()?.sum_by_name("rows_in_runs").map(|rows| rows.as_usize());
    let [rows, runs] = said;
    (rows, runs, steps(&in_runs).last().and_then(counted))
}

const BY_MODEL: &str = "SELECT model, count(*), sum(n), avg(n), min(x), max(x), avg(x) FROM t GROUP BY model";
const BY_CALL: &str = "SELECT id, model, count(n), sum(x) FROM t GROUP BY id, model";
const STATEMENTS: [&str; 7] = [
    BY_MODEL,
    BY_CALL,
    "SELECT model, count(*) FILTER (WHERE n > 50), sum(n) FILTER (WHERE x < 3) FROM t GROUP BY model",
    "SELECT date_trunc('hour', time) AS hour, model, sum(n) FROM t GROUP BY 1, 2",
    "SELECT DISTINCT id FROM t WHERE n IS NOT NULL",
    "SELECT model, count(DISTINCT id) FROM t GROUP BY model",
    "SELECT n, count(*) FROM t WHERE n < 0 GROUP BY n",
];

#[tokio::test]
async fn runs_of_any_length_say_what_rows_say() {
    for lengths in [&[1][..], &[3], &[50], &[5_000], &[50, 1, 50], &[1, 50, 1, 50, 1]] {
        let session = session(lengths);
        for sql in STATEMENTS {
            let (rows, runs, counted) = both(&session, sql).await;
            assert_eq!(rows, runs, "calls of {lengths:?}: {sql}");
            assert!(counted.is_some(), "{sql}");
        }
    }
}

/// Where there are runs rows go in runs, elsewhere into a hash table; one turns into the other as the rows do.
#[tokio::test]
async fn rows_go_the_way_that_suits_them() {
    let all = |pieces: u32| (2 * pieces * ROWS) as usize;
    let in_runs = async |lengths: &[u32], sql: &str| both(&session(lengths), sql).await.2;
    assert_eq!(in_runs(&[50], BY_CALL).await, Some(all(1)));
    assert_eq!(in_runs(&[50], BY_MODEL).await, Some(all(1)));
    assert_eq!(in_runs(&[3], BY_CALL).await, Some(0));
    assert_eq!(in_runs(&[50], "SELECT n, count(*) FROM t GROUP BY n").await, Some(0));
    // the second piece and eleven batches of the third are gone when the hash table is looked away from, at its 32nd batch
    let third = ROWS - 11 * BATCH_ROWS;
    assert_eq!(in_runs(&[50, 1, 50], BY_CALL).await, Some(2 * (ROWS + third) as usize));
    // states of a run that may be long, an order among rows, and nothing to group by
    for sql in [
        "SELECT id, array_agg(n) FROM t GROUP BY id",
        "SELECT id, first_value(n ORDER BY x) FROM t GROUP BY id",
        "SELECT count(*) FROM t",
    ] {
        assert_eq!(in_runs(&[50], sql).await, None, "{sql}");
    }
}
