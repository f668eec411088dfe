use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::{Keeper, Lease, Standing, TRUSTED_FOR, TTL};
use crate::sample::Hand;

/// A process with its own clock.
fn process(store: &Arc<dyn ObjectStore>, name: &str) -> (Lease, Keeper, Arc<Hand>) {
    let clock = Arc::new(Hand::default());
    let lease = Lease::new(Arc::clone(store), "job", Some(format!("http://{name}")), true, clock.clone());
    (lease, Keeper::new(clock.clone()), clock)
}

fn other(name: &str) -> Standing {
    Standing::Other { address: Some(format!("http://{name}")) }
}

fn store() -> Arc<dyn ObjectStore> {
    Arc::new(InMemory::new())
}

#[tokio::test]
async fn one_holds_it_others_see_where_and_the_next_takes_it_when_the_holder_falls_silent() {
    let store = store();
    let ((mut a, ..), (mut b, _, clock)) = (process(&store, "a"), process(&store, "b"));
    assert_eq!(a.tend().await.expect("taken"), Standing::Mine);
    assert_eq!(b.tend().await.expect("seen"), other("a"));
    clock.pass(TTL - Duration::from_millis(1));
    assert_eq!(a.tend().await.expect("renewed"), Standing::Mine);
    assert_eq!(b.tend().await.expect("seen"), other("a"), "a sign of life starts the time anew");
    clock.pass(TTL - Duration::from_millis(1));
    assert_eq!(b.tend().await.expect("seen"), other("a"));
    clock.pass(Duration::from_millis(1));
    assert_eq!(b.tend().await.expect("taken"), Standing::Mine);
    assert_eq!(a.tend().await.expect("seen"), other("b"), "who comes back finds another in its place");
}

#[tokio::test]
async fn jumps_of_the_wall_clock_neither_end_nor_prolong_a_lease() {
    let store = store();
    let ((mut a, _, a_clock), (mut b, _, b_clock)) = (process(&store, "a"), process(&store, "b"));
    a.tend().await.expect("taken");
    b.tend().await.expect("seen");
    for jump_us in [86_400_000_000, -400 * 86_400_000_000, i64::from(i32::MAX)] {
        a_clock.jump(jump_us);
        b_clock.jump(-jump_us);
        assert_eq!(b.tend().await.expect("seen"), other("a"));
        assert_eq!(a.tend().await.expect("renewed"), Standing::Mine);
        assert_eq!(b.tend().await.expect("seen"), other("a"));
    }
    b_clock.pass(TTL);
    b_clock.jump(-86_400_000_000);
    assert_eq!(b.tend().await.expect("taken"), Standing::Mine);
}

#[tokio::test]
async fn of_many_that_find_it_expired_one_takes_it() {
    let store = store();
    let (mut gone, ..) = process(&store, "gone");
    gone.tend().await.expect("taken");
    let mut others: Vec<_> = (0..8).map(|n| process(&store, &n.to_string())).collect();
    for (lease, _, clock) in &mut others {
        lease.tend().await.expect("seen");
        clock.pass(TTL);
    }
    let takes = others.iter_mut().map(|(lease, ..)| lease.tend());
    let outcomes = futures::future::join_all(takes).await;
    let mine = outcomes.iter().flatten().filter(|standing| **standing == Standing::Mine).count();
    assert_eq!((outcomes.iter().flatten().count(), mine), (8, 1), "{outcomes:?}");
}

#[tokio::test]
async fn a_holder_that_cannot_renew_stops_before_others_may_take_it() {
    let store = store();
    let ((mut a, keeper, clock), (mut b, _, b_clock)) = (process(&store, "a"), process(&store, "b"));
    keeper.tend(&mut a).await.expect("taken");
    b.tend().await.expect("seen");
    assert!(keeper.is_mine());
    clock.pass(TRUSTED_FOR);
    assert!(!keeper.is_mine(), "by its own clock, without asking anybody");
    b_clock.pass(TRUSTED_FOR);
    assert_eq!(b.tend().await.expect("seen"), other("a"), "and nobody has it for a moment");
    keeper.tend(&mut a).await.expect("renewed");
    assert!(keeper.is_mine());
}

#[tokio::test]
async fn a_lease_given_back_is_taken_at_once_and_one_who_only_watches_never_takes_it() {
    let store = store();
    let ((mut a, ..), (mut b, ..)) = (process(&store, "a"), process(&store, "b"));
    let mut watcher = Lease::new(Arc::clone(&store), "job", None, false, Arc::new(Hand::default()));
    assert_eq!(watcher.tend().await.expect("seen"), Standing::Open);
    a.tend().await.expect("taken");
    watcher.release().await.expect("nothing to give back");
    assert_eq!(watcher.tend().await.expect("seen"), other("a"));
    a.release().await.expect("given back");
    assert_eq!(watcher.tend().await.expect("seen"), Standing::Open);
    assert_eq!(b.tend().await.expect("taken"), Standing::Mine);
    assert_eq!(a.tend().await.expect("seen"), other("b"));
}

#[tokio::test]
async fn a_note_that_is_no_note_is_replaced_in_time() {
    let store = store();
    store.put(&Path::from("_tokenwatt/lease/job.json"), "{\"holder\":".into()).await.expect("written");
    let (mut lease, _, clock) = process(&store, "a");
    assert_eq!(lease.tend().await.expect("seen"), Standing::Other { address: None });
    clock.pass(TTL);
    assert_eq!(lease.tend().await.expect("taken"), Standing::Mine);
}
