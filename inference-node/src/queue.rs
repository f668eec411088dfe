//! What passes between request handlers and the step thread: jobs one way, events the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use service::channel::{Sender, TrySendError};
use service::metrics::Counter;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::engine::{Likelihoods, Sampling};
use crate::schedule::Load;

/// One call as it was accepted; shared by everything that is recorded about it.
#[derive(Debug)]
pub(crate) struct Call {
    /// Trace that the caller named, or a new one.
    pub(crate) trace_id: u128,
    /// Span of this call.
    pub(crate) span_id: u64,
    /// Span of the caller.
    pub(crate) parent_span_id: Option<u64>,
    /// Nanoseconds since 1970 at which the request had been read.
    pub(crate) arrival_ns: i64,
    /// Id of the answer.
    pub(crate) id: String,
    /// `chat` or `text_completion`.
    pub(crate) operation: &'static str,
    /// Whether the answer is streamed.
    pub(crate) stream: bool,
    /// Model asked for.
    pub(crate) model: Arc<str>,
    /// Tenant, from a trusted caller only.
    pub(crate) tenant: Option<Arc<str>>,
    /// Lower is more urgent.
    pub(crate) priority: i32,
    /// When nobody wants the answer any more, on the clock of `arrival_ns`.
    pub(crate) deadline_ns: Option<i64>,
    /// Prompt tokens; several choices of one prompt count it once.
    pub(crate) input_tokens: u64,
    /// Most output tokens of a choice.
    pub(crate) output_max: u32,
    /// What the client set, for the record: limit, temperature, nucleus share.
    pub(crate) asked: Asked,
    /// How tokens are picked; the seed differs per choice.
    pub(crate) sampling: Sampling,
    /// Texts that end a choice.
    pub(crate) stops: Arc<[String]>,
    /// Whether its tokens are recorded.
    pub(crate) sampled: bool,
}

/// Settings that the client wrote down itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Asked {
    pub(crate) max_tokens: Option<u32>,
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
    pub(crate) choices: Option<u32>,
}

/// A call on its way to the step thread.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) call: Arc<Call>,
    /// Prompt of each choice.
    pub(crate) prompts: Vec<Arc<[u32]>>,
    /// Where its text goes. Has room for everything the call can produce, so that the step thread never waits.
    pub(crate) events: Sender<Event>,
    /// Its places in the node; free again when the call is over.
    pub(crate) _places: OwnedSemaphorePermit,
}

/// Why a choice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// The model ended it, or a stop text came.
    Stop,
    /// The token limit or the longest sequence was reached.
    Length,
    /// The client went away, or the engine failed.
    Abort,
}

impl Finish {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::Abort => "abort",
        }
    }
}

/// What a handler gets to hear.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// More text of a choice; empty only if its likelihoods were asked for. `tokens` is what the choice has produced so far.
    Text { choice: u32, text: String, tokens: u32, likelihoods: Option<Box<Likelihoods>> },
    /// A choice is complete.
    End { choice: u32, reason: Finish, tokens: u32 },
    /// The call failed.
    Failed(String),
    /// The call's deadline passed.
    Expired,
}

/// Why a job was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turned {
    /// All slots and all places in the queue are taken.
    Full,
    /// The node is going down.
    Closed,
}

/// The door to the step thread.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    jobs: Sender<Job>,
    places: Arc<Semaphore>,
}

impl Door {
    /// A door with `places` places for sequences, running and waiting together.
    pub(crate) fn new(jobs: Sender<Job>, places: usize) -> Self {
        Self { jobs, places: Arc::new(Semaphore::new(places)) }
    }

    /// Takes places for `choices` sequences, or none.
    pub(crate) fn places(&self, choices: u32) -> Result<OwnedSemaphorePermit, Turned> {
        Arc::clone(&self.places).try_acquire_many_owned(choices).map_err(|_| Turned::Full)
    }

    /// Hands the job over.
    pub(crate) fn enter(&self, job: Job) -> Result<(), Turned> {
        self.jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => Turned::Full,
            TrySendError::Closed(_) => Turned::Closed,
        })
    }
}

/// The node's load, written by the step thread and read by everyone.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    /// Output tokens of all calls.
    pub(crate) generated: Counter,
    running: AtomicU32,
    waiting: AtomicU32,
    kv_usage_bits: AtomicU64,
}

impl Gauges {
    pub(crate) fn new(generated: Counter) -> Self {
        Self { generated, ..Self::default() }
    }

    pub(crate) fn set(&self, load: Load) {
        self.running.store(load.running, Ordering::Relaxed);
        self.waiting.store(load.waiting, Ordering::Relaxed);
        self.kv_usage_bits.store(load.kv_usage.to_bits(), Ordering::Relaxed);
    }

    pub(crate) fn load(&self) -> Load {
        Load {
            running: self.running.load(Ordering::Relaxed),
            waiting: self.waiting.load(Ordering::Relaxed),
            kv_usage: f64::from_bits(self.kv_usage_bits.load(Ordering::Relaxed)),
        }
    }
}
