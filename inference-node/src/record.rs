//! What a node says about its calls: records from the step thread become OTLP on a thread of their own.
//!
//! ```text
//! step thread -> [bounded channel] -> span / metric -> batch -> [bounded channel] -> export (resends)
//! ```
//!
//! The step thread only ever tries to send: what does not fit is dropped and counted, and no
//! token waits. Spans are built here, straight from the record, without a tracer: the SDK's batch
//! processor drops silently once 2,048 spans wait, which one second of a busy node exceeds.

mod export;
mod metric;
mod processor;
mod relayed;
mod resource;
mod span;

pub(crate) use export::{ATTEMPT, Exporter, Outbox};
pub(crate) use resource::{Origin, origin};

use std::sync::Arc;

use service::channel::{Sender, TrySendError};
use service::metrics::{Counter, Registry};
use telemetry::names;

use crate::proxy::Relayed;
use crate::queue::{Call, Finish};
use crate::schedule::{Blocks, Load, StepPlan};
use crate::step::{HostTime, Taken};

/// Why the gap before a token was long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stall {
    /// Nothing but its own step.
    Decode,
    /// A prompt was computed, its own or another's.
    Prefill,
    /// Its memory was taken away and computed again.
    Preempted,
    /// The host came late.
    Host,
}

impl Stall {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Stall::Decode => "decode",
            Stall::Prefill => "prefill",
            Stall::Preempted => "preempted",
            Stall::Host => "host",
        }
    }
}

/// One token of a step.
#[derive(Clone, Debug)]
pub(crate) struct TokenMark {
    pub(crate) call: Arc<Call>,
    pub(crate) choice: u32,
    pub(crate) index: u32,
    /// When the token before left, or the call arrived.
    pub(crate) start_ns: i64,
    pub(crate) device_us: u64,
    pub(crate) stall: Stall,
}

/// The recorded tokens of one step.
#[derive(Clone, Debug)]
pub(crate) struct StepRecord {
    pub(crate) end_ns: i64,
    /// Sequences in the step.
    pub(crate) batch: u32,
    pub(crate) tokens: Vec<TokenMark>,
    /// The step itself, where it is recorded.
    pub(crate) detail: Option<Box<StepDetail>>,
}

/// All about one step.
#[derive(Clone, Debug)]
pub(crate) struct StepDetail {
    /// Number of the step since the start.
    pub(crate) number: u64,
    pub(crate) start_ns: i64,
    /// Trace and span of the calls with work in it.
    pub(crate) calls: Vec<(u128, u64)>,
    pub(crate) plan: StepPlan,
    /// Most tokens of a step, where the policy has a budget.
    pub(crate) budget: Option<u32>,
    /// KV memory when the step was over.
    pub(crate) blocks: Blocks,
    pub(crate) load: Load,
    pub(crate) device_us: u64,
    /// Part of it that went to empty slots.
    pub(crate) padding_us: u64,
    pub(crate) host: HostTime,
}

impl StepRecord {
    /// Spans that it becomes.
    fn spans(&self) -> u64 {
        self.tokens.len() as u64 + u64::from(self.detail.is_some())
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All choices are complete.
    Complete,
    /// The client went away.
    Cancelled,
    /// The engine failed, or refused it.
    Failed(String),
    /// Its deadline passed.
    Expired,
}

/// A whole call, once it is over.
#[derive(Clone, Debug)]
pub(crate) struct CallRecord {
    pub(crate) call: Arc<Call>,
    pub(crate) outcome: Outcome,
    pub(crate) output_tokens: u64,
    /// Prompt tokens whose KV blocks another sequence had computed.
    pub(crate) cached_tokens: u64,
    /// First step with work of the call.
    pub(crate) scheduled_ns: Option<i64>,
    /// First token.
    pub(crate) first_ns: Option<i64>,
    /// First token with content.
    pub(crate) content_ns: Option<i64>,
    /// Last token so far, or the end of a call that was cut off.
    pub(crate) end_ns: i64,
    /// Longest gap between two tokens of a choice.
    pub(crate) gap_max_ns: Option<i64>,
    /// Device time of prompt tokens, also of those computed again.
    pub(crate) device_us_prefill: u64,
    /// Device time of decode steps.
    pub(crate) device_us_decode: u64,
    pub(crate) preemptions: u32,
    /// Why each choice ended.
    pub(crate) finish: Vec<Option<Finish>>,
}

impl CallRecord {
    pub(crate) fn new(call: Arc<Call>, choices: usize) -> Self {
        Self {
            outcome: Outcome::Complete,
            output_tokens: 0,
            cached_tokens: 0,
            scheduled_ns: None,
            first_ns: None,
            content_ns: None,
            end_ns: call.arrival_ns,
            gap_max_ns: None,
            device_us_prefill: 0,
            device_us_decode: 0,
            preemptions: 0,
            finish: vec![None; choices],
            call,
        }
    }

    /// A token left at `at_ns`, the one before it at `before_ns`.
    pub(crate) fn token(&mut self, at_ns: i64, before_ns: i64, first_of_choice: bool) {
        self.output_tokens += 1;
        self.first_ns.get_or_insert(at_ns);
        self.end_ns = self.end_ns.max(at_ns);
        if !first_of_choice {
            self.gap_max_ns = self.gap_max_ns.max(Some(at_ns - before_ns));
        }
    }

    /// Its parts, one right behind the other: name, begin, end. One that was cut off has those it came to; one whose tokens are not
    /// recorded has none.
    fn phases(&self) -> impl Iterator<Item = (&'static str, i64, i64)> {
        let begins = [
            (names::SPAN_QUEUE, Some(self.call.arrival_ns)),
            (names::SPAN_PREFILL, self.scheduled_ns),
            (names::SPAN_DECODE, self.first_ns),
        ];
        let ends = [self.scheduled_ns, self.first_ns, None].map(|end| end.unwrap_or(self.end_ns));
        let sampled = self.call.sampled;
        let all = begins.into_iter().zip(ends).filter(move |_| sampled);
        all.filter_map(|((name, begin), end)| Some((name, begin?, end)))
    }

    /// A choice ended.
    pub(crate) fn end_choice(&mut self, index: u32, reason: Finish) {
        if let Some(slot) = self.finish.get_mut(index as usize) {
            *slot = Some(reason);
        }
    }
}

/// What the recorder gets.
#[derive(Debug)]
pub(crate) enum Record {
    /// A step with recorded tokens.
    Step(StepRecord),
    /// A call that is over.
    Call(Box<CallRecord>),
    /// A sample of the engine.
    Sample(Taken),
    /// A part of a call that went through the proxy.
    Relayed(Relayed),
    /// What the engine behind the proxy has to do.
    Load(ProxyLoad),
}

/// A proxy at one instant.
#[derive(Clone, Debug)]
pub(crate) struct ProxyLoad {
    pub(crate) time_ns: i64,
    /// Its calls, where no other tells them.
    pub(crate) calls: Option<ProxyCalls>,
}

/// The calls of a proxy at one instant.
#[derive(Clone, Debug)]
pub(crate) struct ProxyCalls {
    /// Those that the engine has from here.
    pub(crate) running: u32,
    /// Those that wait here for their turn.
    pub(crate) waiting: u32,
}

/// The step thread's end of the recorder. Clones share it.
#[derive(Clone)]
pub(crate) struct Recorder {
    records: Sender<Record>,
    lost: Lost,
    /// Whether phases become spans.
    phases: bool,
}

/// Counts what was not recorded.
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    /// Spans of tokens and calls.
    pub(crate) spans: Counter,
    /// Samples.
    pub(crate) samples: Counter,
}

impl Lost {
    pub(crate) fn new(registry: &Registry) -> Self {
        let spans = "Spans that were dropped because a queue was full or the collector did not take them in time.";
        let samples = "Engine samples that were dropped for the same reasons.";
        Self {
            spans: registry.counter("tokenwatt_node_spans_lost_total", spans, &[]),
            samples: registry.counter("tokenwatt_node_samples_lost_total", samples, &[]),
        }
    }
}

impl Recorder {
    pub(crate) fn new(records: Sender<Record>, lost: Lost) -> Self {
        Self { records, lost, phases: false }
    }

    /// A call's phases are spans, too, and counted where they are dropped.
    pub(crate) fn with_phases(self, phases: bool) -> Self {
        Self { phases, ..self }
    }

    pub(crate) fn step(&self, record: StepRecord) {
        if !record.tokens.is_empty() || record.detail.is_some() {
            self.send(Record::Step(record));
        }
    }

    pub(crate) fn call(&self, record: CallRecord) {
        self.send(Record::Call(Box::new(record)));
    }

    pub(crate) fn sample(&self, taken: Taken) {
        self.send(Record::Sample(taken));
    }

    pub(crate) fn load(&self, load: ProxyLoad) {
        self.send(Record::Load(load));
    }

    pub(crate) fn relayed(&self, relayed: Relayed) {
        self.send(Record::Relayed(relayed));
    }

    fn send(&self, record: Record) {
        let (TrySendError::Full(record) | TrySendError::Closed(record)) = match self.records.try_send(record) {
            Ok(()) => return,
            Err(error) => error,
        };
        match record {
            Record::Step(step) => self.lost.spans.add(step.spans()),
            Record::Call(call) => {
                self.lost.spans.add(1 + if self.phases { call.phases().count() as u64 } else { 0 });
            }
            Record::Sample(_) | Record::Load(_) => self.lost.samples.inc(),
            Record::Relayed(relayed) => {
                self.lost.spans.add(relayed.marks.len() as u64 + u64::from(relayed.end.is_some()));
            }
        }
    }
}

#[cfg(test)]
mod tests;
