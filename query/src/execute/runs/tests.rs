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

use super::{Runs, by_runs};

/// Rows of each of the two partitions.
const ROWS: u32 = 20_000;

/// Calls of `length` rows each: a long id, one of three models or none, numbers, and a time that goes up.
fn batches(length: u32, from: u32) -> Vec<RecordBatch> {
    let calls = ROWS / length + 1;
    let ids: ArrayRef =
        Arc::new(StringViewArray::from_iter_values((0..calls).map(|call| format!("{:032x}", from + call))));
    let models: ArrayRef =
        Arc::new(StringViewArray::from(vec![Some("llama-3-70b-instruct-of-a-long-name"), Some("qwen"), None]));
    let batch = |start: u32| {
        let rows = || start..(start + 4_096).min(ROWS);
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
    (0..ROWS).step_by(4_096).map(batch).collect()
}

fn session(length: u32) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(2);
    let pool = Arc::new(GreedyMemoryPool::new(1 << 30));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
    let session = SessionContext::new_with_config_rt(config, runtime);
    let parts = vec![batches(length, 0), batches(length, 1_000_000)];
    let table = MemTable::try_new(parts[0][0].schema(), parts).unwrap();
    session.register_table("t", Arc::new(table)).unwrap();
    session
}

fn names(plan: &Arc<dyn ExecutionPlan>) -> Vec<String> {
    let below = plan.children().into_iter().flat_map(names);
    std::iter::once(plan.name().to_owned()).chain(below).collect()
}

/// The answer as rows go one by one, and as they go in runs; both in order.
async fn both(session: &SessionContext, sql: &str) -> [String; 2] {
    let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    let in_runs = by_runs(Arc::clone(&plan)).unwrap();
    assert!(names(&in_runs).iter().any(|name| name == "ByRuns"), "{sql}");
    let mut said = [String::new(), String::new()];
    for (said, plan) in said.iter_mut().zip([plan, in_runs]) {
        let rows = collect(plan, session.task_ctx()).await.unwrap();
        let text = pretty_format_batches(&rows).unwrap().to_string();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        *said = lines.join("\n");
    }
    said
}

const STATEMENTS: [&str; 7] = [
    "SELECT model, count(*), sum(n), avg(n), min(x), max(x), avg(x) FROM t GROUP BY model",
    "SELECT id, model, count(n), sum(x) FROM t GROUP BY id, model",
    "SELECT model, count(*) FILTER (WHERE n > 50), sum(n) FILTER (WHERE x < 3) FROM t GROUP BY model",
    "SELECT date_trunc('hour', time) AS hour, model, sum(n) FROM t GROUP BY 1, 2",
    "SELECT DISTINCT id FROM t WHERE n IS NOT NULL",
    "SELECT model, count(DISTINCT id) FROM t GROUP BY model",
    "SELECT n, count(*) FROM t WHERE n < 0 GROUP BY n",
];

#[tokio::test]
async fn runs_of_any_length_say_what_rows_say() {
    for length in [1, 3, 50, 5_000] {
        let session = session(length);
        for sql in STATEMENTS {
            let [rows, runs] = both(&session, sql).await;
            assert_eq!(rows, runs, "{length} rows a run: {sql}");
        }
    }
}

#[tokio::test]
async fn what_has_no_runs_is_left_alone() {
    let worth = async |length: u32, sql: &str| {
        let session = session(length);
        let plan = session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let whole = batches(length, 0)[0].schema();
        let mut found = None;
        let mut look = vec![by_runs(plan).unwrap()];
        while let Some(node) = look.pop() {
            if let Some(by_runs) = node.downcast_ref::<super::ByRuns>() {
                let read = by_runs.partial.input_schema();
                let columns: Vec<_> = read.fields().iter().map(|field| whole.index_of(field.name()).unwrap()).collect();
                let batch = batches(length, 0)[0].project(&columns).unwrap();
                let runs = Runs::of(&by_runs.partial, &batch).unwrap();
                found = Some(runs.is_worth_it());
            }
            look.extend(node.children().into_iter().cloned());
        }
        found
    };
    assert_eq!(worth(50, "SELECT id, count(*) FROM t GROUP BY id").await, Some(true));
    assert_eq!(worth(2, "SELECT id, count(*) FROM t GROUP BY id").await, Some(false));
    assert_eq!(worth(50, "SELECT n, count(*) FROM t GROUP BY n").await, Some(false));
    // states of a run that may be long, an order among rows, and nothing to group by
    for sql in [
        "SELECT id, array_agg(n) FROM t GROUP BY id",
        "SELECT id, first_value(n ORDER BY x) FROM t GROUP BY id",
        "SELECT count(*) FROM t",
    ] {
        assert_eq!(worth(50, sql).await, None, "{sql}");
    }
}
