use super::*;

/// A stage begins only when nobody holds the one before it, and all stages run in order.
#[tokio::test]
async fn stages_wait_for_their_holders() {
    let shutdown = Shutdown::new();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut workers = Vec::new();
    // Spawned in reverse, so that the order cannot come from the order of spawning.
    for stage in Stage::ALL.into_iter().rev() {
        let (hold, token, order) = (shutdown.hold(stage, "worker"), shutdown.token(stage), Arc::clone(&order));
        workers.push(tokio::spawn(async move {
            token.cancelled().await;
            order.lock().push(format!("{} begins", stage.name()));
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            order.lock().push(format!("{} ends", stage.name()));
            drop(hold);
        }));
    }
    assert!(!shutdown.begun());
    let late = shutdown.walk(Duration::from_secs(30)).await;
    assert!(late.is_empty(), "{late:?}");
    let expected: Vec<String> =
        Stage::ALL.iter().flat_map(|s| [format!("{} begins", s.name()), format!("{} ends", s.name())]).collect();
    assert_eq!(*order.lock(), expected);
}

/// A holder that never finishes is named, and does not keep the later stages from running.
#[tokio::test]
async fn late_holders_are_named() {
    let shutdown = Shutdown::new();
    let _first = shutdown.hold(Stage::Streams, "gateway us-east-1");
    let _second = shutdown.hold(Stage::Streams, "gateway us-east-1");
    let late = shutdown.walk(Duration::from_millis(20)).await;
    assert_eq!(late, ["streams/gateway us-east-1"]);
    assert!(shutdown.token(Stage::Query).is_cancelled());
}

/// Who says what is left of its work is late with that, as it is then; and what became of it depends on whose work it was.
#[tokio::test]
async fn late_holders_say_what_is_left() {
    let shutdown = Shutdown::new();
    let left = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let spans = Arc::clone(&left);
    let hold = shutdown.hold(Stage::Recorders, "node.a");
    let _hold =
        hold.leaving(move || format!("{} spans were not sent", spans.load(std::sync::atomic::Ordering::Relaxed)));
    left.store(12, std::sync::atomic::Ordering::Relaxed);
    let late = shutdown.walk(Duration::from_millis(20)).await;
    assert_eq!(late, ["recorders/node.a (12 spans were not sent)"]);
    assert!(what_became(&late).starts_with("records that were not sent are gone"));
    let journal = "what was acknowledged is in the journal and is committed at the next start";
    assert_eq!(what_became(&["ingest/collector".to_owned()]), journal);
    let both = what_became(&["ingest/collector".to_owned(), late[0].clone()]);
    assert!(both.starts_with("records") && both.ends_with(journal), "{both}");
    assert_eq!(what_became(&["some.task".to_owned()]), "the log above says what they were doing");
}
