//! The calls of one stream: which are open, what each was answered, and whose turn each has.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::message::{self, Answer};
use crate::proxy::Front;
use crate::proxy::ask::Named;
use crate::proxy::call::Follow;
use crate::proxy::turn::Turn;

/// Most calls open on one stream that are followed.
const CALLS_MAX: usize = 4_096;
/// Longest id of a call that is followed.
const ID_BYTES_MAX: usize = 256;

/// The calls of one stream. Requests and answers share it.
pub(super) struct Calls {
    front: Arc<Front>,
    headers: HeaderMap,
    pub(super) streams: bool,
    /// The trace of its calls, where it began here.
    trace: Option<u128>,
    /// Whether this engine marks the last answer of a call.
    marks: bool,
    /// By id, the oldest first; ids may repeat, and may be empty.
    open: HashMap<String, VecDeque<Open>>,
    count: usize,
    /// The one place of all calls that could not be read, kept until the stream ends.
    unread: Option<Turn>,
    /// When a call went to the engine, or an answer came, last.
    since: Instant,
}

/// A call that the engine has.
struct Open {
    follow: Follow,
    _turn: Turn,
}

/// A call that waits for its turn.
pub(super) struct Waiting {
    id: String,
    follow: Follow,
}

impl Calls {
    pub(super) fn new(front: &Arc<Front>, headers: &HeaderMap, streams: bool, trace: Option<u128>) -> Self {
        Self {
            front: Arc::clone(front),
            headers: headers.clone(),
            streams,
            trace,
            marks: false,
            open: HashMap::new(),
            count: 0,
            unread: None,
            since: Instant::now(),
        }
    }

    /// A request came; `None` where it cannot be read or followed.
    pub(super) fn asked(&self, message: &[u8]) -> Option<Waiting> {
        let (model, id) = message::asked(message)?;
        if self.count >= CALLS_MAX || id.len() > ID_BYTES_MAX {
            return None;
        }
        let named = Named { model, id: Some(&id), streams: self.streams, trace: self.trace };
        let follow = self.front.follow(&self.headers, &named);
        Some(Waiting { id, follow })
    }

    /// Whether a call that could not be read needs no turn: another one has it already.
    pub(super) fn has_unread(&self) -> bool {
        self.unread.is_some()
    }

    /// The request goes to the engine, as its turn has come.
    pub(super) fn begin(&mut self, waiting: Option<Waiting>, turn: Turn) {
        self.since = Instant::now();
        let Some(Waiting { id, mut follow }) = waiting else {
            self.unread = Some(turn);
            return;
        };
        if turn.queued {
            follow.dispatched();
        }
        self.open.entry(id).or_default().push_back(Open { follow, _turn: turn });
        self.count += 1;
    }

    /// An answer came from the engine.
    pub(super) fn answered(&mut self, message: &[u8]) {
        self.since = Instant::now();
        let (error, inner) = if self.streams { message::streamed(message) } else { (None, Some(message)) };
        let answer = inner.and_then(Answer::read).unwrap_or_default();
        self.marks |= answer.is_marked;
        let Some(same) = self.open.get_mut(answer.id) else { return };
        let others_wait = same.len() > 1;
        let Some(Open { follow, .. }) = same.front_mut() else { return };
        follow.output(&answer.output);
        // Where nothing is marked and others of that id wait, each answer is a whole one, as models give that are not decoupled.
        let is_whole = !self.streams || !self.marks && others_wait;
        if answer.is_last || error.is_some() || is_whole {
            let kind = error.as_ref().map(|_| "engine_error");
            follow.finish(kind, error);
            same.pop_front();
            self.count -= 1;
            if same.is_empty() {
                self.open.remove(answer.id);
            }
        }
    }

    /// The stream is over; what is still open ended with it.
    pub(super) fn end(&mut self, kind: Option<&'static str>) {
        for Open { mut follow, .. } in self.open.drain().flat_map(|(_, same)| same) {
            match kind {
                None => follow.finish_at_last_chunk(),
                Some(kind) => follow.finish(Some(kind), Some(kind.replace('_', " "))),
            }
        }
        self.count = 0;
        self.unread = None;
    }

    /// When the engine has been silent for too long; without an open call it may be silent.
    fn due(&self, patience: Duration) -> Instant {
        if self.count > 0 { self.since + patience } else { Instant::now() + patience }
    }
}

impl Waiting {
    /// The call is refused, since too many wait.
    pub(super) fn refuse(mut self) {
        self.follow.finish(Some("rate_limited"), Some("the queue is full".to_owned()));
    }
}

/// Waits for the engine; `None` once it has said nothing for so long, though it has calls to answer.
pub(super) async fn patiently<T>(calls: &Mutex<Calls>, patience: Duration, what: impl Future<Output = T>) -> Option<T> {
    let mut what = pin!(what);
    loop {
        let due = calls.lock().due(patience);
        if due <= Instant::now() {
            return None;
        }
        if let Ok(done) = tokio::time::timeout_at(due, &mut what).await {
            return Some(done);
        }
    }
}
