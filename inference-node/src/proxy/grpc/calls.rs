//! The calls of one stream: which are open, what each was answered, and whose turn each has.

use std::borrow::Cow;
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
    /// How many of the open ones have their turn still.
    waits: usize,
    /// How many have been open.
    begun: u64,
    /// The turns of calls that could not be read, the oldest first.
    unread: VecDeque<Turn>,
    /// No more requests will come.
    is_asked: bool,
    /// Some of an answer has come, and not all of it.
    pub(super) is_within: bool,
    /// When something went to the engine, or came from it, last.
    since: Instant,
}

/// A call that the engine has.
struct Open {
    follow: Follow,
    /// Given back at its end, or at its first answer where nothing will say which is the last.
    turn: Option<Turn>,
    /// Its place in the order in which they began.
    begun: u64,
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
            waits: 0,
            begun: 0,
            unread: VecDeque::new(),
            is_asked: false,
            is_within: false,
            since: Instant::now(),
        }
    }

    /// A request came; `None` where it cannot be read or followed.
    pub(super) fn asked(&self, message: &[u8]) -> Option<Waiting> {
        let (model, id) = message::asked(message)?;
        if self.waits >= CALLS_MAX || id.len() > ID_BYTES_MAX {
            return None;
        }
        let named = Named { model, id: Some(&id), streams: self.streams, trace: self.trace };
        let follow = self.front.follow(&self.headers, &named);
        Some(Waiting { id, follow })
    }

    /// The request goes to the engine, as its turn has come; `None` for one that could not be read.
    pub(super) fn begin(&mut self, waiting: Option<Waiting>, turn: Turn) {
        if !self.marks && self.is_silent() {
            // Who asks again after a long silence took what had come for whole.
            while let Some(id) = self.oldest(false) {
                self.settle(&id);
            }
        }
        self.moved();
        let Some(Waiting { id, mut follow }) = waiting else {
            // Where turns are free to have, those that never got an answer must not pile up.
            if self.unread.len() >= CALLS_MAX {
                self.unread.pop_front();
            }
            self.unread.push_back(turn);
            return;
        };
        if turn.queued {
            follow.dispatched();
        }
        if self.count >= CALLS_MAX
            && let Some(oldest) = self.oldest(false)
        {
            self.settle(&oldest);
        }
        if !self.marks {
            self.settle(&id);
        }
        self.begun += 1;
        self.open.entry(id).or_default().push_back(Open { follow, turn: Some(turn), begun: self.begun });
        self.count += 1;
        self.waits += 1;
    }

    /// Some of a request went to the engine, or some of an answer came.
    pub(super) fn moved(&mut self) {
        self.since = Instant::now();
    }

    /// The client has sent its last request, and waits for the end of the stream.
    pub(super) fn asked_all(&mut self) {
        self.is_asked = true;
        self.moved();
    }

    /// An answer came from the engine; `None` where it cannot be read.
    pub(super) fn answered(&mut self, message: Option<&[u8]>) {
        let (error, inner) = match message {
            Some(message) if self.streams => message::streamed(message),
            _ => (None, message),
        };
        let answer = inner.and_then(Answer::read).unwrap_or_default();
        self.marks |= answer.is_marked;
        let whose = self.whose(&answer, inner.is_some(), error.is_some());
        let is_told = self.marks && message.is_some();
        let Some(same) = whose.as_deref().and_then(|id| self.open.get_mut(id)) else {
            if answer.is_last || !answer.is_marked {
                self.unread.pop_front();
            }
            return;
        };
        let others_wait = same.len() > 1;
        let Some(Open { follow, turn, .. }) = same.front_mut() else { return };
        follow.output(&answer.output);
        // Where nothing is marked and others of that id wait, each answer is a whole one, as models give that are not decoupled.
        let is_whole = !self.streams || !self.marks && others_wait;
        let ends = answer.is_last || error.is_some() || is_whole;
        // Its end may never be told: the next call must not wait for it.
        if (ends || !is_told) && turn.take().is_some() {
            self.waits -= 1;
        }
        if ends {
            let kind = error.as_ref().map(|_| "engine_error");
            follow.finish(kind, error);
            if let Some(id) = whose {
                self.take(&id);
            }
        }
    }

    /// Takes out the oldest call of this id.
    fn take(&mut self, id: &str) -> Option<Open> {
        let same = self.open.get_mut(id)?;
        let open = same.pop_front()?;
        self.count -= 1;
        self.waits -= usize::from(open.turn.is_some());
        if same.is_empty() {
            self.open.remove(id);
        }
        Some(open)
    }

    /// The id of the open call that an answer is for; `None` where it is for one that could not be read, or for none.
    fn whose<'a>(&self, answer: &Answer<'a>, has_answer: bool, is_error: bool) -> Option<Cow<'a, str>> {
        let same = self.open.get(answer.id);
        if !has_answer || is_error && answer.id.is_empty() && same.is_none() {
            // It names no call. A fault is rather one of a call that has no answer yet.
            let waits = if is_error || self.unread.is_empty() { self.oldest(true) } else { None };
            let any = || if is_error && self.unread.is_empty() { self.oldest(false) } else { None };
            return waits.or_else(any).map(Cow::Owned);
        }
        // Without ids, what was answered once, and a call that could not be read, the answer is for the one that waits for it.
        let is_answered = same?.front()?.turn.is_none();
        let is_unread = !self.marks && answer.id.is_empty() && is_answered && !self.unread.is_empty();
        (!is_unread).then_some(Cow::Borrowed(answer.id))
    }

    /// The id of the oldest open call that has its turn still, or has given it back.
    fn oldest(&self, has_turn: bool) -> Option<String> {
        let fronts = self.open.iter().filter_map(|(id, same)| Some((id, same.front()?)));
        let such = fronts.filter(|(_, open)| open.turn.is_some() == has_turn);
        such.min_by_key(|(_, open)| open.begun).map(|(id, _)| id.clone())
    }

    /// Ends the oldest call of this id if it was answered, and nothing said whether that was all of it.
    fn settle(&mut self, id: &str) {
        let is_answered = self.open.get(id).and_then(VecDeque::front).is_some_and(|open| open.turn.is_none());
        if is_answered && let Some(mut open) = self.take(id) {
            open.follow.finish_at_last_chunk();
        }
    }

    /// Whether nothing has come or gone for longer than an engine may take within an answer.
    fn is_silent(&self) -> bool {
        self.since.elapsed() >= self.front.config.idle_timeout
    }

    /// The stream is over; what is still open ended with it.
    pub(super) fn end(&mut self, kind: Option<&'static str>) {
        for Open { mut follow, .. } in self.open.drain().flat_map(|(_, same)| same) {
            match kind {
                None => follow.finish_at_last_chunk(),
                Some(kind) => follow.finish(Some(kind), Some(kind.replace('_', " "))),
            }
        }
        (self.count, self.waits) = (0, 0);
        self.unread.clear();
    }

    /// When the engine has been silent for too long; `None` where it may be silent, since it owes nothing that anybody knows of: all
    /// its calls have been answered, and the client may go on asking. A client that does not waits for the end of the stream.
    fn due(&self, patience: Duration) -> Option<Instant> {
        let owes = self.waits > 0 || !self.unread.is_empty() || self.is_within || self.is_asked;
        owes.then(|| self.since + patience)
    }
}

impl Drop for Calls {
    /// The client went away. Where it had waited for too long for more of an answer, or for a word that there is no more, the engine had
    /// left it hanging; else it is the client who cut the answer off, as each call says that is dropped.
    fn drop(&mut self) {
        while self.is_silent()
            && let Some(mut open) = self.oldest(false).and_then(|id| self.take(&id))
        {
            open.follow.finish(Some("timeout"), Some(HANGS.to_owned()));
        }
    }
}

/// What became of an answer that stopped, and of which nothing said that it was whole.
const HANGS: &str = "the engine fell silent, and did not say that its answer was whole";

impl Waiting {
    /// The call is refused, since too many wait.
    pub(super) fn refuse(self) {
        self.follow.turned_away();
    }
}

/// Waits for the engine; `None` once it has said nothing for so long, though more must come of it.
pub(super) async fn patiently<T>(calls: &Mutex<Calls>, patience: Duration, what: impl Future<Output = T>) -> Option<T> {
    let mut what = pin!(what);
    loop {
        let due = calls.lock().due(patience).unwrap_or_else(|| Instant::now() + patience);
        // What has come is taken however late it is asked for: a client that reads slowly is not the engine's silence.
        if let Ok(done) = tokio::time::timeout_at(due, &mut what).await {
            return Some(done);
        }
        if calls.lock().due(patience).is_some_and(|due| due <= Instant::now()) {
            return None;
        }
    }
}
