use std::fs;

use bytes::Bytes;

use super::*;
use crate::decode::inflate::Compression;
use crate::receive::Encoding;
use crate::signal::Signal;

const NOW: Duration = Duration::from_secs(1_000);

fn body(text: &str) -> Stored {
    Stored {
        signal: Signal::Traces,
        compression: Compression::Gzip,
        encoding: Encoding::Json,
        faulty: true,
        received_us: 1_790_000_000_000_000,
        digest: u128::from(text.len() as u64) << 64 | 7,
        body: Bytes::copy_from_slice(text.as_bytes()),
    }
}

fn try_open(directory: &Path, digests: &Digests) -> Result<Journal> {
    let room = Arc::new(Room::new(u64::MAX, 0));
    Journal::open(Arc::new(SystemDisk), directory, NOW, room, digests)
}

fn open(directory: &Path) -> (Journal, Digests) {
    let digests = Digests::new(service::clock::system());
    (try_open(directory, &digests).unwrap(), digests)
}

fn frames(journal: &Journal, after: u64) -> Vec<(u64, Stored)> {
    let (mut next, mut read) = (after + 1, Vec::new());
    while let Some(stretch) = journal.stretch(next) {
        let visit = |number, stored| {
            read.push((number, stored));
            true
        };
        next = stretch.read(next, None, visit).unwrap().cursor.next();
    }
    read
}

fn texts(journal: &Journal, after: u64) -> Vec<(u64, String)> {
    let text = |(number, stored): (u64, Stored)| (number, String::from_utf8(stored.body.to_vec()).unwrap());
    frames(journal, after).into_iter().map(text).collect()
}

/// Lets go of the oldest segment, which must be there, and removes its file.
fn cut(journal: &mut Journal, through: u64, now: Duration) {
    journal.cut(through, now).unwrap().expect("a segment is committed").remove().unwrap();
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
    assert_eq!(frames(&journal, 2), [(3, body("ccc"))]);
    assert_eq!(digests.begin(body("bb").digest), Known::Stored);
    assert_eq!(digests.begin(99), Known::New);
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
    for length in kept..journal.bytes() {
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

/// Whichever byte of a frame in the middle changes, the frames around it are read, the lost one is named, and the file is kept.
#[test]
fn a_changed_byte_costs_one_frame_and_never_those_after_it() {
    let whole = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(whole.path());
    journal.append(&[body("first")], NOW).unwrap();
    let from = journal.bytes() as usize;
    journal.append(&[body("second one")], NOW).unwrap();
    let to = journal.bytes() as usize;
    journal.append(&[body("third"), body("fourth!")], NOW).unwrap();
    let name = segment::name(1);
    let bytes = fs::read(whole.path().join(&name)).unwrap();
    let expected = [(1, "first".to_owned()), (3, "third".to_owned()), (4, "fourth!".to_owned())];
    for at in from..to {
        for flip in [1, 0x80] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join(&name);
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            fs::write(&path, damaged).unwrap();
            let (mut journal, digests) = open(directory.path());
            assert_eq!(texts(&journal, 0), expected, "byte {at}");
            assert_eq!((journal.last(), fs::metadata(&path).unwrap().len()), (4, bytes.len() as u64), "nothing is cut");
            let read = journal.stretch(1).unwrap().read(1, None, |_, _| true).unwrap();
            assert_eq!(read.damaged, [2..=2], "byte {at}");
            assert_eq!(digests.begin(body("second one").digest), Known::New, "its sender may send it again");
            cut(&mut journal, 4, NOW);
            assert!(path.with_extension("damaged").exists());
        }
    }
}

/// A disk that changes bytes under a process that runs costs it the frames it changed, also at the end and in a row, and the
/// segments after that are read on.
#[test]
fn damage_while_it_runs_is_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    let mut ends = Vec::new();
    for text in ["a", "bb", "ccc", "dddd"] {
        journal.append(&[body(text)], NOW).unwrap();
        ends.push(journal.bytes() as usize);
    }
    journal.append(&[body("eeeee")], NOW + SEGMENT_AGE).unwrap();
    let path = directory.path().join(segment::name(1));
    let bytes = fs::read(&path).unwrap();
    let all = [(1, "a"), (2, "bb"), (3, "ccc"), (4, "dddd"), (5, "eeeee")].map(|(n, text)| (n, text.to_owned()));
    for lost in [vec![1], vec![2, 3], vec![4], vec![3, 4], vec![1, 2, 3, 4]] {
        let mut damaged = bytes.clone();
        // The header's first byte, the length, and the last of the body.
        lost.iter().for_each(|frame| damaged[ends[frame - 1] - 1] ^= 4);
        lost.iter().for_each(|frame| damaged[ends.get(frame.wrapping_sub(2)).copied().unwrap_or(MAGIC.len())] ^= 2);
        fs::write(&path, damaged).unwrap();
        let left = all.iter().filter(|(number, _)| !lost.contains(&(*number as usize)));
        assert_eq!(texts(&journal, 0), left.cloned().collect::<Vec<_>>(), "{lost:?}");
        let read = journal.stretch(1).unwrap().read(1, None, |_, _| true).unwrap();
        let named: Vec<_> = read.damaged.into_iter().flatten().collect();
        assert_eq!(named, lost.iter().map(|frame| *frame as u64).collect::<Vec<_>>());
        assert_eq!(read.cursor.next(), 5);
    }
}

/// The first bytes of a segment say what it is; damage to them costs no frame.
#[test]
fn a_damaged_header_of_a_segment_costs_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    journal.append(&[body("first"), body("second")], NOW).unwrap();
    drop(journal);
    let path = directory.path().join(segment::name(1));
    let bytes = fs::read(&path).unwrap();
    for at in 0..MAGIC.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        fs::write(&path, damaged).unwrap();
        let (journal, _) = open(directory.path());
        assert_eq!(texts(&journal, 0), [(1, "first".to_owned()), (2, "second".to_owned())], "byte {at}");
    }
}

/// A frame whose bytes changed on disk is not taken for a body; at the end nobody can tell it from a torn one.
#[test]
fn a_changed_byte_in_the_last_frame_ends_the_segment() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    journal.append(&[body("first"), body("second")], NOW).unwrap();
    let last = journal.bytes() as usize - 1;
    drop(journal);
    let path = directory.path().join(segment::name(1));
    let mut bytes = fs::read(&path).unwrap();
    let is_padding = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let (segment, size) = Segment::scan(&SystemDisk, &path, 1, None).unwrap();
        segment.ends_in_padding(&SystemDisk, size).unwrap()
    };
    assert!(is_padding(&bytes), "what no frame fills is zeros");
    bytes[last] ^= 1;
    assert!(!is_padding(&bytes), "a frame that cannot be read is no padding, however short");
    let (journal, _) = open(directory.path());
    assert_eq!(texts(&journal, 0), [(1, "first".to_owned())]);
}

/// A file that the disk did not give up has no frames of the id that the journal gets later.
#[test]
fn a_new_id_begins_with_an_empty_directory() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    journal.append(&[body("a")], NOW).unwrap();
    journal.append(&[body("bb")], NOW + SEGMENT_AGE).unwrap();
    let gone = journal.cut(1, NOW + SEGMENT_AGE).unwrap().unwrap();
    let bytes = journal.bytes();
    journal.leave(gone);
    assert!(journal.bytes() > bytes, "it takes its room");
    journal.renew(NOW + SEGMENT_AGE).unwrap();
    drop(journal);
    let (journal, _) = open(directory.path());
    assert_eq!((journal.last(), texts(&journal, 0)), (0, Vec::new()));
}

/// A file that the disk did not give up is what the next cut begins with.
#[test]
fn what_could_not_be_removed_is_removed_later() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    journal.append(&[body("a")], NOW).unwrap();
    journal.append(&[body("bb")], NOW + SEGMENT_AGE).unwrap();
    let gone = journal.cut(1, NOW + SEGMENT_AGE).unwrap().unwrap();
    journal.leave(gone);
    cut(&mut journal, 1, NOW + SEGMENT_AGE);
    assert!(journal.cut(1, NOW + SEGMENT_AGE).unwrap().is_none());
    drop(journal);
    assert_eq!(texts(&open(directory.path()).0, 0), [(2, "bb".to_owned())]);
}

/// Committed segments go, their digests stay as long as a retry may come, and numbers go on.
#[test]
fn the_journal_is_cut_and_remembers_digests() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    journal.append(&[body("a")], NOW).unwrap();
    journal.append(&[body("bb")], NOW + SEGMENT_AGE).unwrap();
    assert!(journal.cut(0, NOW + SEGMENT_AGE).unwrap().is_none());
    assert_eq!(texts(&journal, 0).len(), 2);
    cut(&mut journal, 1, NOW + SEGMENT_AGE);
    assert_eq!(texts(&journal, 0), [(2, "bb".to_owned())]);
    cut(&mut journal, 2, NOW + SEGMENT_AGE * 3);
    assert!(journal.cut(2, NOW + SEGMENT_AGE * 3).unwrap().is_none());
    assert_eq!(texts(&journal, 0), []);
    drop(journal);
    let (mut journal, digests) = open(directory.path());
    assert_eq!(digests.begin(body("a").digest), Known::Stored);
    journal.skip_to(2);
    assert_eq!(journal.append(&[body("ccc")], NOW).unwrap(), 3);
}

/// Two processes cannot write one journal.
#[test]
fn a_second_process_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let _held = open(directory.path());
    let error = try_open(directory.path(), &Digests::new(service::clock::system())).err().unwrap();
    assert_eq!(error.kind(), Kind::Conflict);
}

/// A file of another version is named, not read.
#[test]
fn a_foreign_file_is_corrupt() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(segment::name(1)), [b'x'; 64]).unwrap();
    let error = try_open(directory.path(), &Digests::new(service::clock::system())).err().unwrap();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.to_string().contains("journal"));
}

/// A file that cannot be written stands in for a disk that does not obey.
fn break_disk(journal: &mut Journal) {
    let path = &journal.segments.back().unwrap().path;
    let file = fs::OpenOptions::new().read(true).open(path).unwrap();
    journal.open.as_mut().unwrap().file = Box::new(file);
}

/// A disk that takes nothing leaves no frame behind, and bodies are taken again once it does.
#[test]
fn a_failed_append_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    journal.append(&[body("a")], NOW).unwrap();
    break_disk(&mut journal);
    let error = journal.append(&[body("bb")], NOW).unwrap_err();
    assert!(matches!(error.kind(), Kind::Unavailable { .. }));
    assert_eq!(journal.append(&[body("ccc")], NOW).unwrap(), 2);
    assert_eq!(texts(&journal, 0), [(1, "a".to_owned()), (2, "ccc".to_owned())]);
}

/// What a failed append left on disk because it could not be cut back is not read, neither now nor after a restart.
#[test]
fn a_failed_cut_repeats_no_number() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    journal.append(&[body("a")], NOW).unwrap();
    break_disk(&mut journal);
    journal.append(&[body("bb")], NOW).unwrap_err();
    let mut left = fs::OpenOptions::new().append(true).open(directory.path().join(segment::name(1))).unwrap();
    io::Write::write_all(&mut left, &frame::header(2, &body("bb"))).unwrap();
    io::Write::write_all(&mut left, b"bb").unwrap();
    assert_eq!(journal.append(&[body("ccc")], NOW).unwrap(), 2);
    let expected = [(1, "a".to_owned()), (2, "ccc".to_owned())];
    assert_eq!(texts(&journal, 0), expected);
    drop(journal);
    let (journal, digests) = open(directory.path());
    assert_eq!(texts(&journal, 0), expected);
    assert_eq!(digests.begin(body("bb").digest), Known::New, "its sender was refused and may come again");
}

/// A copied directory is known for a copy, and its frames are gone before it gets an id of its own.
#[test]
fn a_copy_gets_an_id_of_its_own() {
    let (original, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut journal, _) = open(original.path());
    journal.append(&[body("a")], NOW).unwrap();
    assert!(!journal.copied());
    for entry in fs::read_dir(original.path()).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    let (mut copied, digests) = open(copy.path());
    assert!(copied.copied());
    assert_eq!(copied.id(), journal.id());
    assert_eq!(digests.begin(body("a").digest), Known::Stored);
    copied.renew(NOW).unwrap();
    assert_ne!(copied.id(), journal.id());
    assert_eq!(copied.append(&[body("bb")], NOW).unwrap(), 2);
    drop(copied);
    let (copied, _) = open(copy.path());
    assert!(!copied.copied());
    assert_eq!(texts(&copied, 0), [(2, "bb".to_owned())]);
}

/// A body set aside is kept in a file that reads like a segment, and known after a restart.
#[test]
fn what_is_set_aside_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    journal.append(&[body("a"), body("bb")], NOW).unwrap();
    let path = journal.set_aside(2, &body("bb")).unwrap();
    drop(journal);
    let (journal, _) = open(directory.path());
    assert!(journal.aside().contains(&2));
    let mut reader = segment::Reader::open(&SystemDisk, &path, segment::Place { at: 0, next: 2 }, None).unwrap();
    assert_eq!(reader.next().unwrap(), Some((2, body("bb"))));
}

/// The one segment of a journal.
fn only(directory: &Path) -> PathBuf {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|kind| kind == "journal")).min().unwrap()
}

/// A header that was zeroed costs no frame.
#[test]
fn frames_outlive_their_header() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    journal.append(&[body("a"), body("bb")], NOW).unwrap();
    drop(journal);
    let path = only(directory.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[..MAGIC.len()].fill(0);
    fs::write(&path, bytes).unwrap();
    let (journal, _) = open(directory.path());
    assert_eq!(texts(&journal, 0), [(1, "a".to_owned()), (2, "bb".to_owned())]);
}

/// A frame whose body was damaged is followed by the one behind it, not by one that a sender hid in the body.
#[test]
fn what_lies_in_a_damaged_body_is_no_frame() {
    let directory = tempfile::tempdir().unwrap();
    let hidden = tempfile::tempdir().unwrap();
    let (mut other, _) = open(hidden.path());
    other.append(&[body("x"), body("forged")], NOW).unwrap();
    drop(other);
    let forged = Stored { body: fs::read(only(hidden.path())).unwrap().into(), ..body("a") };
    let (mut journal, _) = open(directory.path());
    journal.append(&[forged, body("bb")], NOW).unwrap();
    drop(journal);
    let mut bytes = fs::read(only(directory.path())).unwrap();
    // The body begins as a segment does.
    let at = bytes.windows(16).rposition(|word| word == MAGIC).unwrap();
    bytes[at] ^= 1;
    fs::write(only(directory.path()), bytes).unwrap();
    let (journal, _) = open(directory.path());
    assert_eq!(texts(&journal, 0).last(), Some(&(2, "bb".to_owned())));
}

/// Bodies are refused once the journal's room is used up, and taken again when it was cut or the disk has more.
#[test]
fn room_is_used_up_and_given_back() {
    let directory = tempfile::tempdir().unwrap();
    let room = Arc::new(Room::new(200, 10));
    let digests = Digests::new(service::clock::system());
    let mut journal = Journal::open(Arc::new(SystemDisk), directory.path(), NOW, Arc::clone(&room), &digests).unwrap();
    room.check().unwrap();
    journal.append(&[body(&"x".repeat(200))], NOW).unwrap();
    let refusal = room.check().unwrap_err();
    assert!(refusal.kind().retry_after().is_some() && refusal.hint().is_some());
    cut(&mut journal, 1, NOW + SEGMENT_AGE);
    room.check().unwrap();
    room.free(9);
    assert!(room.check().is_err());
}

/// A journal as version 1 wrote it is read by every later version: its segment, its digests and its id.
///
/// `UPDATE_FIXTURE=1` writes it anew, which only a new version of the format may do, beside the old one.
#[test]
fn a_journal_of_version_1_is_read() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/journal/fixture/1");
    let bodies = [body("a"), Stored { faulty: false, encoding: Encoding::Protobuf, ..body("bb") }];
    if std::env::var_os("UPDATE_FIXTURE").is_some() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(directory.path());
        journal.append(&[body("gone")], NOW).unwrap();
        journal.append(&bodies, NOW + SEGMENT_AGE).unwrap();
        cut(&mut journal, 1, NOW + SEGMENT_AGE);
        fs::create_dir_all(&fixture).unwrap();
        for entry in fs::read_dir(directory.path()).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, fixture.join(path.file_name().unwrap())).unwrap();
        }
        // The first version did not note where the id was made.
        fs::write(fixture.join("id"), "0193d5b0a3c87c2e9a4f6d1e2b3c4d5e").unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(&fixture).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, directory.path().join(path.file_name().unwrap())).unwrap();
    }
    let (mut journal, digests) = open(directory.path());
    assert_eq!(journal.id(), "0193d5b0a3c87c2e9a4f6d1e2b3c4d5e");
    assert!(!journal.copied());
    let expected: Vec<_> = (2..).zip(bodies).collect();
    assert_eq!(frames(&journal, 0), expected);
    assert_eq!(digests.begin(body("gone").digest), Known::Stored);
    assert_eq!(digests.begin(body("bb").digest), Known::Stored);
    assert_eq!(journal.append(&[body("ccc")], NOW).unwrap(), 4);
}

/// A journal whose directory, or the file it appends to, was taken away acknowledges nothing more, though the kernel takes what it
/// writes; nor does it go on in a directory that somebody made in its place.
#[test]
fn nothing_is_acknowledged_into_a_directory_that_is_gone() {
    let place = |directory: &Path| {
        let room = Arc::new(Room::new(u64::MAX, 0));
        let digests = Digests::new(service::clock::system());
        let mut journal = Journal::open(Arc::new(SystemDisk), directory, NOW, Arc::clone(&room), &digests).unwrap();
        journal.append(&[body("kept")], NOW).unwrap();
        journal.look();
        room.check().unwrap();
        (journal, room)
    };
    type Harm = fn(&Path);
    let harms: [Harm; 4] = [
        |directory| fs::remove_dir_all(directory).unwrap(),
        |directory| fs::remove_file(directory.join(segment::name(1))).unwrap(),
        |directory| fs::rename(directory, directory.with_extension("moved")).unwrap(),
        |directory| {
            fs::rename(directory, directory.with_extension("moved")).unwrap();
            fs::create_dir(directory).unwrap();
            fs::write(directory.join("lock"), "").unwrap();
        },
    ];
    for harm in harms {
        let above = tempfile::tempdir().unwrap();
        let directory = above.path().join("journal");
        let (mut journal, room) = place(&directory);
        harm(&directory);
        let error = journal.append(&[body("lost")], NOW).unwrap_err();
        assert!(error.kind().retry_after().is_some() && error.to_string().contains("removed"), "{error}");
        assert_eq!(journal.last(), 1);
        journal.look();
        assert!(room.check().is_err_and(|error| error.hint().is_some()));
    }
}

/// A journal serves the lake it was begun with until all it holds is committed, and then any other, to which nothing is known that
/// the first one had.
#[test]
fn a_journal_belongs_to_one_lake_while_it_holds_frames() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, digests) = open(directory.path());
    journal.belong("x", "file:///x/", false, &digests).unwrap();
    journal.append(&[body("a"), body("bb")], NOW).unwrap();
    drop(journal);
    let (mut journal, digests) = open(directory.path());
    journal.belong("x", "s3://other-name/x/", true, &digests).unwrap();
    let refused = journal.belong("y", "file:///y/", false, &digests).unwrap_err();
    assert!(refused.to_string().contains("file:///x/") && refused.hint().is_some_and(|hint| hint.contains("--state")));
    journal.empty(1, NOW).unwrap();
    assert!(journal.belong("y", "file:///y/", false, &digests).is_err(), "one frame is not committed");
    journal.empty(2, NOW).unwrap();
    drop(journal);
    let (mut journal, digests) = open(directory.path());
    assert_eq!(digests.begin(body("a").digest), Known::Stored);
    journal.belong("y", "file:///y/", false, &digests).unwrap();
    assert_eq!(digests.begin(body("a").digest), Known::New);
    journal.append(&[body("a")], NOW).unwrap();
    drop(journal);
    let (mut journal, digests) = open(directory.path());
    assert!(journal.belong("x", "file:///x/", true, &digests).is_err());
    journal.belong("y", "file:///y/", true, &digests).unwrap();
}

/// Does what the hint of a refusal says about the same lake.
fn do_as_told(refused: &Error) {
    let hint = refused.hint().unwrap();
    let command = hint.split('`').find(|part| part.starts_with("printf")).unwrap();
    let status = std::process::Command::new("sh").args(["-c", command]).status().unwrap();
    assert!(status.success(), "{command}");
}

/// A lake that came back without its id, and an older journal whose lake has no row of it any more, are taken once somebody has done what the
/// refusal says, whatever their places are called; no frame is lost by it.
#[test]
fn what_a_refusal_says_works() {
    let parent = tempfile::tempdir().unwrap();
    let place = parent.path().join("it's a \"state\"");
    let (mut journal, digests) = open(&place);
    journal.belong("x", "file:///x/", false, &digests).unwrap();
    journal.append(&[body("a"), body("bb")], NOW).unwrap();
    let refused = journal.belong("new", "file:///it's%20x/", true, &digests).unwrap_err();
    do_as_told(&refused);
    journal.belong("new", "file:///it's%20x/", true, &digests).unwrap();
    assert_eq!(texts(&journal, 0).len(), 2);
    assert!(journal.belong("x", "file:///x/", true, &digests).is_err(), "it belongs to the other one now");

    let (mut journal, digests) = open(&parent.path().join("older"));
    journal.append(&[body("a")], NOW).unwrap();
    journal.append(&[body("bb")], NOW + SEGMENT_AGE).unwrap();
    cut(&mut journal, 1, NOW + SEGMENT_AGE);
    let refused = journal.belong("y", "s3://b/y/", false, &digests).unwrap_err();
    do_as_told(&refused);
    journal.belong("y", "s3://b/y/", false, &digests).unwrap();
    assert_eq!(texts(&journal, 1), [(2, "bb".to_owned())]);
}

/// A journal of a version that did not note its lake takes the one that has its rows, or the first one there is; not another one.
#[test]
fn an_older_journal_takes_the_lake_that_has_its_rows() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, digests) = open(directory.path());
    journal.append(&[body("a")], NOW).unwrap();
    journal.append(&[body("bb")], NOW + SEGMENT_AGE).unwrap();
    cut(&mut journal, 1, NOW + SEGMENT_AGE);
    assert!(journal.belong("y", "file:///y/", false, &digests).is_err(), "frame 1 was committed elsewhere");
    journal.belong("x", "file:///x/", true, &digests).unwrap();
    assert!(journal.belong("y", "file:///y/", false, &digests).is_err());
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, digests) = open(directory.path());
    journal.append(&[body("a")], NOW).unwrap();
    journal.belong("x", "file:///x/", false, &digests).unwrap();
}

/// The number of a body that was set aside is given to no other, which would be passed over with it.
#[test]
fn the_number_of_a_body_that_was_set_aside_is_not_given_again() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    journal.append(&[body("a"), body("bb")], NOW).unwrap();
    journal.set_aside(2, &body("bb")).unwrap();
    journal.empty(2, NOW).unwrap();
    drop(journal);
    let (mut journal, _) = open(directory.path());
    assert_eq!(journal.append(&[body("ccc")], NOW).unwrap(), 3);
}
