use super::*;

/// A failed task fails the process's health, and its name and cause are kept.
#[tokio::test]
async fn failure_reaches_health() {
    let health = Health::new();
    let tasks = Tasks::new(health.clone());
    tasks.spawn("fine", async {});
    tasks.spawn("collector.flush", async { Err::<(), _>(Error::internal("write file").with_source("disk full")) });
    tasks.failed().cancelled().await;
    assert!(tasks.join(Duration::from_secs(5)).await.is_empty());
    assert_eq!(tasks.failure().as_deref(), Some("collector.flush: write file: disk full"));
    assert!(!health.alive());
}

/// A panic is a failure like any other, and a cancelled task is none.
#[tokio::test]
async fn panics_count_and_cancellation_does_not() {
    let tasks = Tasks::new(Health::new());
    tasks.spawn("stopped", async { Err::<(), _>(Error::cancelled("stopped")) });
    assert!(tasks.join(Duration::from_secs(5)).await.is_empty());
    assert!(tasks.failure().is_none());

    tasks.spawn("broken", async {
        let nothing: [u8; 0] = [];
        assert_eq!(nothing.len(), 1, "out of cheese");
    });
    tasks.failed().cancelled().await;
    assert!(tasks.failure().is_some_and(|text| text.starts_with("broken: ")));
}

/// Joining gives up at the deadline and names those that still run.
#[tokio::test]
async fn join_names_who_still_runs() {
    let tasks = Tasks::new(Health::new());
    tasks.spawn("stuck", std::future::pending::<()>());
    assert_eq!(tasks.join(Duration::from_millis(20)).await, ["stuck"]);
}
