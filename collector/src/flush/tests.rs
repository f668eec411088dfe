use std::collections::BTreeSet;

use futures::FutureExt;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, any_value::Value};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use parking_lot::Mutex;
use prost::Message;
use service::channel::{Receiver, bounded};

use super::*;
use crate::batch::Limits;
use crate::batch::tables::Tables;
use crate::counters::Counters;
use crate::decode::inflate::Compression;
use crate::feed::feed;
use crate::journal::{Digests, Journal, Room, Stored, SystemDisk};
use crate::normalize::{Normalizer, Settings};
use crate::progress::Progress;
use crate::receive::Encoding;
use crate::receive::admit::Line;
use crate::signal::Signal;
use crate::simulation::clock::SimClock;

const NOW_US: i64 = 1_790_000_000_000_000;

/// A logs request with one record of so many bytes.
fn body(bytes: usize) -> Vec<u8> {
    let body = Some(AnyValue { value: Some(Value::StringValue("x".repeat(bytes))) });
    let record = LogRecord { time_unix_nano: NOW_US as u64 * 1_000, body, ..LogRecord::default() };
    let scope_logs = vec![ScopeLogs { log_records: vec![record], ..ScopeLogs::default() }];
    let resource_logs = vec![ResourceLogs { scope_logs, ..ResourceLogs::default() }];
    ExportLogsServiceRequest { resource_logs }.encode_to_vec()
}

fn frame(number: u64, bytes: usize) -> Frame {
    let (signal, received_us) = (Signal::Logs, NOW_US);
    Frame { number, signal, received_us, faulty: false, body: body(bytes).into(), permit: None, tries: None }
}

fn gather(limit: usize, progress: &Arc<Progress>) -> Gather {
    let age = Duration::from_secs(3_600);
    let limits = Limits { live_after: age, bulk_after: age, bytes: limit };
    let counters = Counters::new(&service::metrics::Registry::new());
    let (normalizer, tables) = (Normalizer::new(Settings::default()).unwrap(), Tables::new(|_| 0));
    Gather::new(normalizer, tables, limits, Arc::clone(progress), counters, BTreeSet::new())
}

/// Bodies that came together do not all become rows before the first of them are handed on.
#[test]
fn rows_are_handed_on_before_more_are_made() {
    let frames = (1..=4).map(|number| frame(number, 40_000)).collect();
    let mut gather = gather(50_000, &Arc::default());
    let (mut left, mut closed);
    (gather, closed, left) = rows(gather, frames, Duration::ZERO, true).unwrap();
    assert_eq!((closed.len(), closed[0].to, left.len()), (1, 2, 2));
    assert!(closed[0].bytes >= 80_000, "{}", closed[0].bytes);
    (_, closed, left) = rows(gather, left, Duration::ZERO, true).unwrap();
    assert_eq!((closed.len(), closed[0].to, left.len()), (1, 4, 0));
}

/// Closed rows take their share of the memory for rows until they are files, and others wait for it, whatever room their lane has.
#[test]
fn closed_rows_wait_for_memory() {
    let (lane, mut queue) = bounded::<Closed>("logs", 8);
    let memory = Budget::new(100_000);
    let ways = Ways { lanes: Lanes::from([("logs", lane)]), memory: memory.clone(), clock: service::clock::system() };
    let brake = Brake::new(Line::new(1, 1), Budget::new(1));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _guard = runtime.enter();
    let (_, mut closed, _) = rows(gather(1, &Arc::default()), [frame(1, 60_000)].into(), Duration::ZERO, true).unwrap();
    let (_, second, _) = rows(gather(1, &Arc::default()), [frame(1, 60_000)].into(), Duration::ZERO, true).unwrap();
    closed.extend(second);
    let [first, second] = <[Closed; 2]>::try_from(closed).ok().expect("two of them");
    ways.hand_over(first, &brake).now_or_never().expect("there is memory").unwrap();
    let mut waiting = Box::pin(ways.hand_over(second, &brake));
    assert!(waiting.as_mut().now_or_never().is_none(), "there is none for a second one");
    let first = queue.try_recv().expect("the first one");
    assert!(waiting.as_mut().now_or_never().is_none(), "its rows are being written");
    drop(first);
    waiting.now_or_never().expect("the first one is a file").unwrap();
}

/// Senders are held while rows wait for memory that others give back, since files are written; where none comes back the lake takes
/// nothing, and they are let go on.
#[test]
fn a_wait_for_memory_is_the_lakes_lag_only_where_none_comes_back() {
    let (lane, _queue) = bounded::<Closed>("logs", 8);
    let (memory, clock) = (Budget::new(100_000), SimClock::default());
    let ways = Ways { lanes: Lanes::from([("logs", lane)]), memory: memory.clone(), clock: Arc::new(clock.clone()) };
    let (line, bodies) = (Line::new(1, 1 << 20), Budget::new(1 << 20));
    let brake = Brake::new(line.clone(), bodies.clone());
    let _half = bodies.take(1 << 19);
    brake.made(NOW_US, NOW_US);
    brake.set();
    let is_held = || line.enter(std::future::pending()).now_or_never().is_none();
    let mut files: Vec<_> = (0..4).map(|_| memory.take(24_000)).collect();
    let (_, mut closed, _) = rows(gather(1, &Arc::default()), [frame(1, 60_000)].into(), Duration::ZERO, true).unwrap();
    let mut waiting = Box::pin(ways.hand_over(closed.remove(0), &brake));
    assert!(waiting.as_mut().now_or_never().is_none(), "there is no memory");
    files.pop();
    clock.advance();
    assert!(waiting.as_mut().now_or_never().is_none() && is_held(), "a file was written meanwhile");
    clock.advance();
    assert!(waiting.as_mut().now_or_never().is_none() && !is_held(), "none was");
    files.clear();
    waiting.now_or_never().expect("there is memory").unwrap();
    assert!(is_held(), "the lake takes rows again");
}

fn journal(directory: &std::path::Path) -> Arc<Mutex<Journal>> {
    let (room, digests) = (Arc::new(Room::new(u64::MAX, 0)), Digests::new(service::clock::system()));
    let journal = Journal::open(Arc::new(SystemDisk), directory, Duration::ZERO, room, &digests);
    Arc::new(Mutex::new(journal.unwrap()))
}

fn stored(bytes: usize) -> Stored {
    let (signal, compression, encoding) = (Signal::Logs, Compression::Identity, Encoding::Protobuf);
    let body = body(bytes).into();
    Stored { signal, compression, encoding, faulty: false, received_us: NOW_US, digest: bytes as u128, body }
}

/// Commits what comes and says of which frames it was.
async fn commit(
    mut closed: Receiver<Closed>,
    progress: Arc<Progress>,
    journal: Arc<Mutex<Journal>>,
) -> Vec<(u64, u64)> {
    let mut entries = Vec::new();
    while let Some(Closed { table, from, to, origin, .. }) = closed.recv().await {
        entries.push((from, to));
        // However long the lake takes, and however often a process ends meanwhile.
        let held = (from + 1..=to).filter(|frame| journal.lock().tries(*frame) > 0).collect::<BTreeSet<_>>();
        assert!(held.is_subset(journal.lock().aside()), "what became rows is not held against them: {held:?}");
        progress.committed(table.name, origin);
        let gone = journal.lock().cut(progress.through(), Duration::ZERO).unwrap();
        gone.into_iter().for_each(|gone| gone.remove().unwrap());
    }
    entries
}

/// Turns what a journal holds into rows, as a process does that reads all of it back.
async fn land(journal: &Arc<Mutex<Journal>>) -> Vec<(u64, u64)> {
    let counters = Counters::new(&service::metrics::Registry::new());
    let (outlet, mut feed) = feed(journal, Budget::new(0), Line::new(1, 1), counters);
    drop(outlet);
    let (progress, (lane, closed)) = (Arc::<Progress>::default(), bounded("logs", 8));
    let ways =
        Ways { lanes: Lanes::from([("logs", lane)]), memory: Budget::new(1 << 30), clock: service::clock::system() };
    let gathered = run(&mut feed, gather(1 << 30, &progress), ways);
    let (gathered, entries) = tokio::join!(gathered, commit(closed, progress, Arc::clone(journal)));
    gathered.unwrap();
    entries
}

/// A large body that processes did not survive is first tried again alone, so that it is known for the one, and in the end set
/// aside: what comes after it becomes rows whatever it does.
#[tokio::test]
async fn a_body_that_kills_processes_is_tried_alone_and_then_set_aside() {
    let directory = tempfile::tempdir().unwrap();
    let first = journal(directory.path());
    let bodies = [stored(10), stored(5 << 20), stored(20), stored(30)];
    first.lock().append(&bodies, Duration::ZERO).unwrap();
    drop(first);
    for deaths in 1..=4 {
        let journal = journal(directory.path());
        assert_eq!(journal.lock().tries(2), deaths - 1);
        // A process that begins again has not ended.
        journal.lock().note_try(2).unwrap();
        journal.lock().note_try(2).unwrap();
        assert_eq!(journal.lock().tries(2), deaths - 1);
        drop(journal);
        if deaths == 1 {
            let copy = tempfile::tempdir().unwrap();
            for file in std::fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().path()) {
                std::fs::copy(&file, copy.path().join(file.file_name().unwrap())).unwrap();
            }
            let journal = self::journal(copy.path());
            assert_eq!(land(&journal).await, [(0, 1), (1, 2), (2, 4)], "the second is alone");
            drop(journal);
            assert_eq!(self::journal(copy.path()).lock().tries(2), 0, "it got through");
        }
    }
    let journal = journal(directory.path());
    assert_eq!(land(&journal).await, [(0, 4)]);
    assert_eq!(journal.lock().aside(), &BTreeSet::from([2]));
    assert_eq!(journal.lock().tries(2), 0);
}
