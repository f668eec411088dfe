//! All followed files together: found, read in turn, and moved on once their lines are stored.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;

use super::file::{self, Chunk, Followed, Identity, Standing};
use super::line::{self, Line};
use super::state::{Sending, State};
use super::{Counters, From, Tail, find, origin};
use crate::encode::log::{Record, record};
use crate::encode::{attribute, group};
use crate::receive;
use crate::signal::Signal;

/// Files followed at once.
const FILES_MAX: usize = 2_048;
/// Bytes read of one file in a turn, unless one line may be longer.
const CHUNK_BYTES: usize = 1 << 20;
/// Turns of one file after which a body is sent.
const BATCH_CHUNKS: usize = 4;
/// Least bytes read of one file in a turn, where the intake takes no larger bodies.
const CHUNK_BYTES_MIN: usize = 1 << 10;
/// How often files are looked for.
const FIND_EVERY: Duration = Duration::from_secs(2);
/// Scope of records that were read from files.
const SCOPE: &str = "tokenwatt.tail";

/// The followed files and their state on disk.
pub(crate) struct Follower {
    groups: Vec<Tail>,
    state: State,
    files: BTreeMap<Identity, Followed>,
    counters: Counters,
    /// Lines that are being delivered.
    sending: Option<Batch>,
    /// Whether the state on disk is behind.
    dirty: bool,
    found_at: Option<Duration>,
    /// The file whose turn is next.
    next: Identity,
    /// Bytes read of one file in a turn: less after a body that was too large.
    chunk_bytes: usize,
    failing: bool,
}

/// Lines of several files on their way.
#[derive(Default)]
struct Batch {
    body: Vec<u8>,
    read: usize,
    lines: u64,
    moves: Vec<(Identity, u64)>,
}

impl Follower {
    pub(super) fn new(groups: Vec<Tail>, state: State, counters: Counters) -> Self {
        Self {
            groups,
            state,
            files: BTreeMap::new(),
            counters,
            sending: None,
            dirty: false,
            found_at: None,
            next: (0, 0),
            chunk_bytes: CHUNK_BYTES,
            failing: false,
        }
    }

    /// How long to wait when there was nothing new.
    pub(super) fn pause(&self) -> Duration {
        self.groups.iter().map(|group| group.poll).min().unwrap_or(FIND_EVERY)
    }

    /// Reads what is new into a body, if there is any, and notes on disk that it is being sent.
    pub(super) fn gather(&mut self, now: Duration, now_ns: u64) -> Option<Bytes> {
        if self.found_at.is_none_or(|found_at| now.saturating_sub(found_at) >= FIND_EVERY) {
            self.find();
            self.found_at = Some(now);
        }
        let mut batch = self.read(now, now_ns);
        let (files, dirty) = (&mut self.files, &mut self.dirty);
        files.retain(|_, followed| {
            let finished = followed.finished(now);
            *dirty |= finished;
            !finished
        });
        let sending = (!batch.moves.is_empty()).then(|| {
            let digest = receive::digest(Signal::Logs, &batch.body);
            Sending::new(digest, batch.moves.iter().copied())
        });
        if sending.is_none() && !self.dirty {
            return None;
        }
        let standings: Vec<Standing> = self.files.values().map(|followed| followed.standing.clone()).collect();
        let sends = sending.is_some();
        if let Err(error) = self.state.write(standings, sending) {
            // Nothing was sent and no offset moved: the same lines are read again.
            self.failed("the state of followed files cannot be written", &error);
            return None;
        }
        self.dirty = false;
        self.failing = false;
        if !sends {
            return None;
        }
        let body = std::mem::take(&mut batch.body);
        self.sending = Some(batch);
        Some(Bytes::from(body))
    }

    /// The body that was gathered last is stored: its lines are done with.
    pub(super) fn delivered(&mut self) {
        self.chunk_bytes = (2 * self.chunk_bytes).min(CHUNK_BYTES);
        let lines = self.move_on();
        self.counters.lines.add(lines);
    }

    /// The body that was gathered last can never be stored as it is. Smaller ones are tried; if there are none, its lines
    /// are given up.
    pub(super) fn refused(&mut self) {
        if self.chunk_bytes > CHUNK_BYTES_MIN {
            self.chunk_bytes /= 2;
            self.sending = None;
            return;
        }
        let lines = self.move_on();
        self.counters.dropped.add(lines);
    }

    fn move_on(&mut self) -> u64 {
        let Some(batch) = self.sending.take() else { return 0 };
        for (identity, offset) in batch.moves {
            if let Some(followed) = self.files.get_mut(&identity) {
                followed.standing.offset = offset;
            }
        }
        self.dirty = true;
        batch.lines
    }

    fn find(&mut self) {
        let first = self.found_at.is_none();
        let mut named: HashSet<Identity> = HashSet::new();
        for place in 0..self.groups.len() {
            let Some(group) = self.groups.get(place).cloned() else { continue };
            for path in find::files(&group.path, FILES_MAX) {
                let left_alone = |text: &str| group.exclude.iter().any(|pattern| find::matches(pattern, text));
                if left_alone(&path.to_string_lossy()) {
                    continue;
                }
                if let Some(identity) = self.meet(&path, place, group.from == From::End && first && !self.state.known) {
                    named.insert(identity);
                }
            }
        }
        for (identity, followed) in &mut self.files {
            followed.gone = !named.contains(identity);
        }
        if first {
            self.find_renamed();
        }
    }

    /// Follows the file at a path, if it is not followed yet.
    fn meet(&mut self, path: &Path, place: usize, skip: bool) -> Option<Identity> {
        let identity = match file::identity(path) {
            Ok(identity) => identity,
            Err(error) => {
                self.failed("a file to follow cannot be looked at", &error);
                return None;
            }
        };
        if let Some(followed) = self.files.get_mut(&identity) {
            if followed.standing.path != path {
                path.clone_into(&mut followed.standing.path);
            }
            return Some(identity);
        }
        if self.files.len() >= FILES_MAX {
            return None;
        }
        let at = self.state.files.iter().position(|standing| standing.identity() == identity);
        let known =
            at.map(|at| self.state.files.swap_remove(at)).map(|known| Standing { path: path.to_owned(), ..known });
        let opened = Followed::open(path, known, place).and_then(|mut followed| {
            if skip {
                followed.skip()?;
            }
            Ok(followed)
        });
        match opened {
            Ok(followed) => {
                self.files.insert(followed.standing.identity(), followed);
                self.dirty = true;
                Some(identity)
            }
            Err(error) => {
                self.failed("a file to follow cannot be opened", &error);
                None
            }
        }
    }

    /// Files that were followed before the start and have another name by now are read to their end.
    fn find_renamed(&mut self) {
        for standing in std::mem::take(&mut self.state.files) {
            let text = standing.path.to_string_lossy().into_owned();
            let place = self.groups.iter().position(|group| find::matches(&group.path, &text)).unwrap_or_default();
            let found = file::renamed(&standing.path, standing.identity());
            let opened = found.and_then(|path| Followed::open(&path, Some(standing.clone()), place).ok());
            match opened {
                Some(mut followed) => {
                    followed.gone = true;
                    self.files.insert(standing.identity(), followed);
                }
                None => {
                    self.counters.lost.inc();
                    tracing::warn!(file = text, offset = standing.offset, "a followed file went while nobody read it");
                }
            }
            self.dirty = true;
        }
    }

    fn read(&mut self, now: Duration, now_ns: u64) -> Batch {
        let mut batch = Batch::default();
        let (before, after): (Vec<Identity>, Vec<Identity>) = self.files.keys().partition(|key| **key < self.next);
        for identity in after.into_iter().chain(before) {
            if batch.read >= BATCH_CHUNKS * self.chunk_bytes {
                self.next = identity;
                break;
            }
            let Some(followed) = self.files.get_mut(&identity) else { continue };
            let Some(group) = self.groups.get(followed.group) else { continue };
            let line_max = usize::try_from(group.line_max).unwrap_or(CHUNK_BYTES);
            let limit = if self.chunk_bytes == CHUNK_BYTES { CHUNK_BYTES.max(2 * line_max) } else { self.chunk_bytes };
            match followed.read(limit, now) {
                Ok(chunk) => {
                    if chunk.restarted {
                        self.counters.truncated.inc();
                        self.dirty = true;
                    }
                    batch.take(followed, group, &chunk, chunk.bytes.len() == limit, now_ns);
                }
                Err(error) => self.failed("a followed file cannot be read", &error),
            }
        }
        batch
    }

    /// Counts a failure, and says so when they begin.
    fn failed(&mut self, what: &str, error: &std::io::Error) {
        self.counters.failed.inc();
        if !std::mem::replace(&mut self.failing, true) {
            tracing::warn!(%error, "{what}; it is tried again");
        }
    }
}

impl Batch {
    /// Takes the lines of a chunk in; `full` says that the file goes on beyond it.
    fn take(&mut self, followed: &Followed, settings: &Tail, chunk: &Chunk, full: bool, now_ns: u64) {
        let mut cut = line::cut(&chunk.bytes, settings.format, chunk.last);
        if cut.consumed == 0 && full {
            cut = line::cut(&chunk.bytes, settings.format, true);
        }
        if cut.consumed == 0 {
            return;
        }
        let mut items = Vec::new();
        let line_max = usize::try_from(settings.line_max).unwrap_or(CHUNK_BYTES);
        for line in &cut.lines {
            self.lines += 1;
            write_line(line, line_max, now_ns, &mut items);
        }
        let told = origin::attributes(&followed.standing.path);
        let told = told.iter().filter(|(key, _)| !settings.labels.contains_key(*key));
        let mut resource = Vec::new();
        told.for_each(|(key, value)| attribute(1, key, value, &mut resource));
        settings.labels.iter().for_each(|(key, value)| attribute(1, key, value, &mut resource));
        group(&resource, SCOPE, &items, &mut self.body);
        self.read += chunk.bytes.len();
        self.moves.push((followed.standing.identity(), followed.standing.offset + cut.consumed as u64));
    }
}

/// Writes a line as a record, or as several if it is longer than one may be.
fn write_line(line: &Line<'_>, line_max: usize, now_ns: u64, items: &mut Vec<u8>) {
    let text = String::from_utf8_lossy(&line.text);
    let mut rest = text.as_ref();
    loop {
        let (body, more) = rest.split_at(rest.floor_char_boundary(line_max));
        let mut attributes = Vec::new();
        attributes.extend(line.stream.map(|stream| ("log.iostream", stream)));
        if line.piece || body.len() < text.len() {
            attributes.push(("tokenwatt.log.piece", "true"));
        }
        let written = Record { time_ns: line.time_ns, observed_ns: now_ns, body, attributes, ..Record::default() };
        record(&written, items);
        rest = more;
        if rest.is_empty() {
            return;
        }
    }
}
