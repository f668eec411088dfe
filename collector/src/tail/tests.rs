use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value;
use prost::Message;

use super::*;
use crate::receive;

const NOW_NS: u64 = 1_790_000_000_000_000_000;

struct World {
    directory: tempfile::TempDir,
    settings: Tail,
    registry: Registry,
    now: Duration,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("*.log").to_str().unwrap().to_owned();
        let settings = Tail { path, ..Tail::default() };
        Self { directory, settings, registry: Registry::new(), now: Duration::from_secs(1) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn append(&self, name: &str, text: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(self.path(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// A start of the collector whose journal holds the bodies with these digests.
    fn start(&self, journal: &[u128]) -> Follower {
        let state = state::State::open(self.directory.path(), |digest| journal.contains(&digest)).unwrap();
        Follower::new(vec![self.settings.clone()], state, Counters::new(&self.registry))
    }

    /// The next body and its lines.
    fn gather(&mut self, follower: &mut Follower) -> (u128, Vec<String>) {
        self.now += FIND;
        let Some(body) = follower.gather(self.now, NOW_NS) else { return (0, Vec::new()) };
        (receive::digest(Signal::Logs, &body), lines(&body))
    }

    /// Gathers and delivers.
    fn read(&mut self, follower: &mut Follower) -> Vec<String> {
        let (_, lines) = self.gather(follower);
        follower.delivered();
        lines
    }

    /// Starts and reads.
    fn fresh(&mut self, journal: &[u128]) -> Vec<String> {
        let mut follower = self.start(journal);
        self.read(&mut follower)
    }

    fn counted(&self, name: &str) -> u64 {
        self.registry.counter(&format!("tokenwatt_collector_tail_{name}"), "", &[]).get()
    }
}

/// Longer than the pause between two searches for files.
const FIND: Duration = Duration::from_secs(3);

fn records(body: &[u8]) -> Vec<opentelemetry_proto::tonic::logs::v1::LogRecord> {
    let request = ExportLogsServiceRequest::decode(body).unwrap();
    let scopes = request.resource_logs.into_iter().flat_map(|group| group.scope_logs);
    scopes.flat_map(|scope| scope.log_records).collect()
}

fn lines(body: &[u8]) -> Vec<String> {
    let text = |record: opentelemetry_proto::tonic::logs::v1::LogRecord| match record.body.unwrap().value {
        Some(any_value::Value::StringValue(text)) => text,
        other => panic!("{other:?}"),
    };
    records(body).into_iter().map(text).collect()
}

/// Whole lines are read once each; what has no end of line yet waits for it, but not for ever.
#[test]
fn lines_are_read_once_and_whole() {
    let mut world = World::new();
    world.append("a.log", "one\ntwo\nthr");
    let mut follower = world.start(&[]);
    assert_eq!(world.read(&mut follower), ["one", "two"]);
    assert!(world.read(&mut follower).is_empty());
    world.append("a.log", "ee\n");
    assert_eq!(world.read(&mut follower), ["three"]);
    world.append("a.log", "unended");
    assert!(world.read(&mut follower).is_empty());
    assert!(world.read(&mut follower).is_empty());
    assert_eq!(world.read(&mut follower), ["unended"]);
    assert_eq!(world.counted("lines_total"), 4);
}

/// A collector that dies with lines on their way finds out from the journal whether they arrived: both ways, once.
#[test]
fn a_crash_between_sending_and_knowing_neither_loses_nor_doubles() {
    let mut world = World::new();
    world.append("a.log", "one\ntwo\n");
    let mut follower = world.start(&[]);
    let (digest, sent) = world.gather(&mut follower);
    assert_eq!(sent, ["one", "two"]);
    drop(follower);
    world.append("a.log", "three\n");

    let mut follower = world.start(&[]);
    let (again, sent) = world.gather(&mut follower);
    assert_eq!(sent, ["one", "two", "three"], "the journal does not hold the first attempt");
    assert_ne!(again, digest);
    drop(follower);
    world.append("a.log", "four\n");

    let mut follower = world.start(&[again]);
    let (last, sent) = world.gather(&mut follower);
    assert_eq!(sent, ["four"], "the journal holds the others");
    follower.delivered();
    drop(follower);
    assert!(world.fresh(&[again, last]).is_empty(), "told so by the journal, not by the state");
}

/// What was delivered stays delivered after an orderly end and a start.
#[test]
fn offsets_survive_a_restart() {
    let mut world = World::new();
    world.append("a.log", "one\n");
    let mut follower = world.start(&[]);
    assert_eq!(world.read(&mut follower), ["one"]);
    assert!(world.read(&mut follower).is_empty(), "nothing new, and the state is written");
    drop(follower);
    world.append("a.log", "two\n");
    assert_eq!(world.fresh(&[]), ["two"]);
}

/// A renamed file is read to its end, under its old name and after a restart; the new one from its start.
#[test]
fn rotation_loses_nothing() {
    let mut world = World::new();
    world.append("a.log", "one\n");
    let mut follower = world.start(&[]);
    assert_eq!(world.read(&mut follower), ["one"]);
    world.append("a.log", "two\n");
    fs::rename(world.path("a.log"), world.path("a.log.1")).unwrap();
    world.append("a.log", "three\n");
    let mut read = world.read(&mut follower);
    read.sort();
    assert_eq!(read, ["three", "two"]);

    // Rotated while nobody looks.
    assert!(world.read(&mut follower).is_empty());
    drop(follower);
    world.append("a.log", "four\n");
    fs::rename(world.path("a.log"), world.path("a.log.2")).unwrap();
    world.append("a.log", "five\n");
    let mut follower = world.start(&[]);
    let mut read = world.read(&mut follower);
    read.sort();
    assert_eq!(read, ["five", "four"]);
    (0..5).for_each(|_| assert!(world.read(&mut follower).is_empty()));
    fs::remove_file(world.path("a.log")).unwrap();
    (0..5).for_each(|_| assert!(world.read(&mut follower).is_empty()));
    drop(follower);
    assert!(world.fresh(&[]).is_empty());
    assert_eq!(world.counted("lost_files_total"), 0);
}

/// A file that was emptied, or filled anew beyond where it was read, is read from its start.
#[test]
fn truncation_is_noticed() {
    let mut world = World::new();
    world.append("a.log", "one\ntwo\n");
    let mut follower = world.start(&[]);
    assert_eq!(world.read(&mut follower).len(), 2);
    fs::write(world.path("a.log"), "3\n").unwrap();
    assert_eq!(world.read(&mut follower), ["3"]);
    fs::write(world.path("a.log"), "another beginning\n").unwrap();
    assert_eq!(world.read(&mut follower), ["another beginning"]);
    assert_eq!(world.counted("truncated_total"), 2);
}

/// A file that went away for good while the collector was down is counted.
#[test]
fn a_file_that_went_while_nobody_read_is_counted() {
    let mut world = World::new();
    world.append("a.log", "one\n");
    let mut follower = world.start(&[]);
    world.read(&mut follower);
    world.read(&mut follower);
    drop(follower);
    fs::remove_file(world.path("a.log")).unwrap();
    // Another inode takes the place in the folder, so that the old one is really gone.
    world.fresh(&[]);
    assert_eq!(world.counted("lost_files_total"), 1);
}

/// Files that are there at the very first start may be left as they are; later ones are read whole.
#[test]
fn following_may_begin_at_the_end() {
    let mut world = World::new();
    world.settings.from = From::End;
    world.append("a.log", "old\n");
    let mut follower = world.start(&[]);
    assert!(world.read(&mut follower).is_empty());
    world.append("a.log", "new\n");
    world.append("b.log", "first\n");
    let mut read = world.read(&mut follower);
    read.sort();
    assert_eq!(read, ["first", "new"]);
    assert!(world.read(&mut follower).is_empty());
    drop(follower);
    world.append("c.log", "second\n");
    assert_eq!(world.fresh(&[]), ["second"]);
}

/// A longer line than a record may hold becomes several, each marked, and none of it is lost.
#[test]
fn long_lines_become_pieces() {
    let mut world = World::new();
    world.settings.line_max = 1_024;
    let text = "é".repeat(1_000);
    world.append("a.log", &format!("{text}\nshort\n"));
    let mut follower = world.start(&[]);
    world.now += FIND;
    let body = follower.gather(world.now, NOW_NS).unwrap();
    let read = lines(&body);
    assert_eq!((read.len(), read[..2].concat()), (3, text));
    let marked: Vec<bool> = records(&body).iter().map(|record| !record.attributes.is_empty()).collect();
    assert_eq!(marked, [true, true, false]);
}

/// A body that the intake does not take is tried in smaller ones, and only what fits none is given up, and counted.
#[test]
fn a_body_that_is_too_large_is_divided() {
    let mut world = World::new();
    world.append("a.log", &"0123456789\n".repeat(400));
    let mut follower = world.start(&[]);
    let mut tried = 0;
    loop {
        let (_, lines) = world.gather(&mut follower);
        if lines.len() < 100 {
            break;
        }
        follower.refused();
        tried += 1;
    }
    follower.delivered();
    assert!(tried > 5, "{tried}");
    let stored = world.counted("lines_total");
    let mut rest = 0;
    while rest + stored < 400 {
        rest += world.read(&mut follower).len() as u64;
    }
    assert_eq!((rest + stored, world.counted("dropped_lines_total")), (400, 0));

    world.append("a.log", "one more\n");
    for _ in 0..11 {
        world.gather(&mut follower);
        follower.refused();
    }
    assert_eq!(world.counted("dropped_lines_total"), 1);
    assert!(world.read(&mut follower).is_empty());
}

/// A line that never ends is cut where the read ends, and what follows is read on.
#[test]
fn an_endless_line_does_not_stop_a_file() {
    let mut world = World::new();
    world.append("a.log", &"x".repeat(3 << 20));
    let mut follower = world.start(&[]);
    let read: usize = (0..4).map(|_| world.read(&mut follower).concat().len()).sum();
    assert!(read >= 2 << 20, "{read}");
}

/// CRI's parts are joined per stream, in the order in which lines end; Docker's JSON alike.
#[test]
fn parts_of_lines_are_joined() {
    let time = "2026-09-21T14:13:20.123456789Z";
    let chunk = format!(
        "{time} stdout P hel\n{time} stderr F oops\n{time} stdout F lo\n{time} stdout F \n{time} stdout P never\n"
    );
    let cut = line::cut(chunk.as_bytes(), Format::Auto, false);
    let read: Vec<_> = cut.lines.iter().map(|line| (line.stream, String::from_utf8_lossy(&line.text))).collect();
    assert_eq!(read, [(Some("stderr"), "oops".into()), (Some("stdout"), "hello".into()), (Some("stdout"), "".into())]);
    assert_eq!(cut.lines[1].time_ns, 1_790_000_000_123_456_789);
    assert!(chunk[cut.consumed..].starts_with(&format!("{time} stdout P never")));
    let last = line::cut(&chunk.as_bytes()[cut.consumed..], Format::Auto, true);
    assert_eq!((last.lines.len(), last.lines[0].piece, last.lines[0].text.as_ref()), (1, true, &b"never"[..]));

    let docker = |log: &str| format!("{{\"log\":\"{log}\",\"stream\":\"stdout\",\"time\":\"{time}\"}}\n");
    let chunk = docker("a ") + &docker("b\\n") + "plain\r\n" + "{\"log\": 1}\n";
    let cut = line::cut(chunk.as_bytes(), Format::Auto, false);
    let read: Vec<_> = cut.lines.iter().map(|line| String::from_utf8_lossy(&line.text)).collect();
    assert_eq!(read, ["a b", "plain", "{\"log\": 1}"]);
    assert_eq!(line::cut(chunk.as_bytes(), Format::Plain, false).lines.len(), 4);
}

/// Wherever a chunk ends, cutting it and then the rest gives the same lines as cutting the whole.
#[test]
fn a_chunk_may_end_anywhere() {
    let time = "2026-09-21T14:13:20Z";
    let whole = format!(
        "{time} stdout P a\nplain\n{time} stderr P x\n{time} stdout F b\n{time} stderr F y\n{time} stdout F c\n"
    );
    let expected = line::cut(whole.as_bytes(), Format::Auto, false);
    assert_eq!((expected.lines.len(), expected.consumed), (4, whole.len()));
    for at in 0..whole.len() {
        let first = line::cut(&whole.as_bytes()[..at], Format::Auto, false);
        let rest = line::cut(&whole.as_bytes()[first.consumed..], Format::Auto, false);
        let joined: Vec<_> = first.lines.iter().chain(&rest.lines).cloned().collect();
        assert_eq!(joined, expected.lines, "{at}");
    }
}

/// What Kubernetes and Docker write into paths.
#[test]
fn paths_name_containers() {
    let id = "0123456789abcdef".repeat(4);
    let of = |path: &str| origin::attributes(Path::new(path)).into_iter().collect::<BTreeMap<_, _>>();
    let link = of(&format!("/var/log/containers/vllm-0_prod_engine-{id}.log"));
    assert_eq!((link["k8s.namespace.name"].as_str(), link["k8s.pod.name"].as_str()), ("prod", "vllm-0"));
    assert_eq!((link["k8s.container.name"].as_str(), link["container.id"].as_str()), ("engine", id.as_str()));
    let pods = of("/var/log/pods/prod_vllm-0_1234/engine/3.log");
    assert_eq!((pods["k8s.pod.uid"].as_str(), pods["k8s.container.restart_count"].as_str()), ("1234", "3"));
    assert_eq!((pods["service.name"].as_str(), pods["k8s.pod.name"].as_str()), ("engine", "vllm-0"));
    assert_eq!(of(&format!("/var/lib/docker/containers/{id}/{id}-json.log"))["container.id"], id);
    for plain in ["/var/log/syslog", "/a_b_c/d/x.log", "/var/log/containers/odd.log", "x"] {
        assert_eq!(of(plain), BTreeMap::from([("log.file.path", plain.to_owned())]));
    }
}

/// Patterns match whole paths, part by part.
#[test]
fn patterns() {
    for (pattern, path, expected) in [
        ("/a/*.log", "/a/b.log", true),
        ("/a/*.log", "/a/b/c.log", false),
        ("/a/**/*.log", "/a/b/c/d.log", true),
        ("/a/**/*.log", "/a/d.log", true),
        ("/a/?.log", "/a/bc.log", false),
        ("/a/*b*c", "/a/xxbxxbxc", true),
        ("/a/*b*c", "/a/xxbxxbx", false),
        ("/a", "/a/b", false),
    ] {
        assert_eq!(find::matches(pattern, path), expected, "{pattern} {path}");
    }
    // A pattern made to be slow is not.
    assert!(!find::name_matches(&"*a".repeat(200), &"a".repeat(100)));
}

/// What cannot be a setting is told before anything is followed.
#[test]
fn settings_are_checked() {
    let mut faults = Vec::new();
    Tail { path: "x".to_owned(), line_max: 1, poll: Duration::ZERO, ..Tail::default() }.validate(&mut faults);
    assert_eq!(faults.len(), 3);
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("tail.json"), "{}").unwrap();
    let error = state::State::open(directory.path(), |_| false).unwrap_err();
    assert_eq!(error.kind(), service::error::Kind::Corrupt);
}
