use std::fs::OpenOptions;

use bytes::Bytes;

use super::*;
use crate::decode::inflate::Compression;
use crate::receive::Encoding;
use crate::signal::Signal;

const NOW: i64 = 1_790_000_000_000_000;

fn body(text: &str) -> Stored {
    Stored {
        signal: Signal::Traces,
        compression: Compression::Gzip,
        encoding: Encoding::Json,
        faulty: true,
        received_us: NOW,
        digest: u128::from(text.len() as u64) << 64 | 7,
        body: Bytes::copy_from_slice(text.as_bytes()),
    }
}

fn open(directory: &Path) -> (Journal, Digests) {
    let digests = Digests::default();
    (Journal::open(directory, NOW, &digests).unwrap(), digests)
}

fn texts(journal: &Journal, after: u64) -> Vec<(u64, String)> {
    let frames = journal.frames(after).map(|frame| frame.unwrap());
    frames.map(|(number, stored)| (number, String::from_utf8(stored.body.to_vec()).unwrap())).collect()
}

/// What was appended is read back as it was, by the same id, after the process that wrote it is gone.
#[test]
fn bodies_survive_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    let id = journal.id().to_owned();
    assert_eq!(journal.append(&[body("a"), body("bb")], NOW).unwrap(), 1);
    assert_eq!(journal.append(&[body("ccc")], NOW).unwrap(), 3);
    drop(journal);
    let (journal, digests) = open(directory.path());
    assert_eq!(journal.id(), id);
    assert_eq!(journal.last(), 3);
    assert_eq!(texts(&journal, 1), [(2, "bb".to_owned()), (3, "ccc".to_owned())]);
    assert_eq!(journal.frames(2).next().unwrap().unwrap().1, body("ccc"));
    assert_eq!(digests.begin(body("bb").digest, NOW), Known::Stored);
    assert_eq!(digests.begin(99, NOW), Known::New);
}

/// However much of the last frame reached the disk, the frames before it stay and new ones follow them.
#[test]
fn a_torn_tail_is_cut_at_every_byte() {
    let whole = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(whole.path());
    journal.append(&[body("kept")], NOW).unwrap();
    let kept = journal.bytes();
    journal.append(&[body("torn")], NOW).unwrap();
    let name = segment::name(1);
    let bytes = fs::read(whole.path().join(&name)).unwrap();
    for length in kept..bytes.len() as u64 {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(&name), &bytes[..length as usize]).unwrap();
        let (mut journal, _) = open(directory.path());
        assert_eq!(texts(&journal, 0), [(1, "kept".to_owned())], "cut at {length}");
        assert_eq!(journal.append(&[body("new")], NOW).unwrap(), 2);
        drop(journal);
        let (journal, _) = open(directory.path());
        assert_eq!(texts(&journal, 0), [(1, "kept".to_owned()), (2, "new".to_owned())]);
    }
}

/// A frame whose bytes changed on disk is not taken for a body.
#[test]
fn a_changed_byte_ends_the_segment() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    journal.append(&[body("first"), body("second")], NOW).unwrap();
    drop(journal);
    let path = directory.path().join(segment::name(1));
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    let (journal, _) = open(directory.path());
    assert_eq!(texts(&journal, 0), [(1, "first".to_owned())]);
}

/// Committed segments go, their digests stay as long as a retry may come, and numbers go on.
#[test]
fn the_journal_is_cut_and_remembers_digests() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    journal.append(&[body("a")], NOW).unwrap();
    journal.append(&[body("bb")], NOW + SEGMENT_US).unwrap();
    journal.cut(0, NOW + SEGMENT_US).unwrap();
    assert_eq!(texts(&journal, 0).len(), 2);
    journal.cut(1, NOW + SEGMENT_US).unwrap();
    assert_eq!(texts(&journal, 0), [(2, "bb".to_owned())]);
    journal.cut(2, NOW + 3 * SEGMENT_US).unwrap();
    assert_eq!(texts(&journal, 0), []);
    drop(journal);
    let (mut journal, digests) = open(directory.path());
    assert_eq!(digests.begin(body("a").digest, NOW), Known::Stored);
    journal.skip_to(2);
    assert_eq!(journal.append(&[body("ccc")], NOW).unwrap(), 3);
}

/// Two processes cannot write one journal.
#[test]
fn a_second_process_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let _held = open(directory.path());
    let error = Journal::open(directory.path(), NOW, &Digests::default()).err().unwrap();
    assert_eq!(error.kind(), Kind::Conflict);
}

/// A file of another version is named, not read.
#[test]
fn a_foreign_file_is_corrupt() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(segment::name(1)), [b'x'; 64]).unwrap();
    let error = Journal::open(directory.path(), NOW, &Digests::default()).err().unwrap();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.to_string().contains("journal"));
}

/// A disk that takes nothing leaves no frame behind, and bodies are taken again once it does.
#[test]
fn a_failed_append_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    journal.append(&[body("a")], NOW).unwrap();
    // A handle that cannot write stands in for a disk that does not.
    journal.open = Some(OpenOptions::new().read(true).open(directory.path().join(segment::name(1))).unwrap());
    let error = journal.append(&[body("bb")], NOW).unwrap_err();
    assert!(matches!(error.kind(), Kind::Unavailable { .. }));
    assert_eq!(journal.append(&[body("ccc")], NOW).unwrap(), 2);
    assert_eq!(texts(&journal, 0), [(1, "a".to_owned()), (2, "ccc".to_owned())]);
}
