//! The calls that are open on the step thread, and what each has used so far.

use std::collections::HashMap;
use std::sync::Arc;

use crate::engine::SeqId;
use crate::queue::{Event, Finish, Job};
use crate::record::{CallRecord, Outcome};
use crate::schedule::{Phase, StepPlan};
use crate::stream::TextStream;

/// One choice of a call.
pub(super) struct Choice {
    pub(super) call: u64,
    pub(super) index: u32,
    pub(super) stream: TextStream,
    /// Output tokens so far.
    pub(super) output: u32,
    /// Most output tokens: the client's limit, or where the longest sequence ends.
    pub(super) output_max: u32,
    /// When the token before left; at first, when the call arrived.
    pub(super) left_ns: i64,
    /// Number of the step that made the token before.
    pub(super) left_step: u64,
    /// Lag of the timeline when the token before left.
    pub(super) left_lag_ns: i64,
    /// Device time of steps that made no token; it rides on the next one.
    pub(super) carried_us: u64,
    /// It had work in a step.
    pub(super) scheduled: bool,
    /// Its memory was taken away since the token before.
    pub(super) preempted: bool,
}

impl Choice {
    pub(super) fn new(call: u64, index: u32, stream: TextStream, output_max: u32, arrival_ns: i64) -> Self {
        Self {
            call,
            index,
            stream,
            output: 0,
            output_max,
            left_ns: arrival_ns,
            left_step: 0,
            left_lag_ns: 0,
            carried_us: 0,
            scheduled: false,
            preempted: false,
        }
    }

    /// A token left.
    pub(super) fn left(&mut self, end_ns: i64, step: u64, lag_ns: i64) {
        self.output += 1;
        self.left_ns = end_ns;
        self.left_step = step;
        self.left_lag_ns = lag_ns;
        self.carried_us = 0;
        self.preempted = false;
    }
}

/// One open call.
pub(super) struct OpenCall {
    pub(super) job: Job,
    pub(super) open: Vec<SeqId>,
    pub(super) record: CallRecord,
}

/// All open calls.
#[derive(Default)]
pub(super) struct Calls {
    calls: HashMap<u64, OpenCall>,
    choices: HashMap<SeqId, Choice>,
}

impl Calls {
    pub(super) fn insert(&mut self, key: u64, job: Job, choices: Vec<(SeqId, Choice)>) {
        let record = CallRecord::new(Arc::clone(&job.call), job.prompts.len());
        let open = choices.iter().map(|(id, _)| *id).collect();
        self.choices.extend(choices);
        self.calls.insert(key, OpenCall { job, open, record });
    }

    pub(super) fn choice(&mut self, id: SeqId) -> Option<(&mut Choice, &mut OpenCall)> {
        let choice = self.choices.get_mut(&id)?;
        let call = self.calls.get_mut(&choice.call)?;
        Some((choice, call))
    }

    /// Device time that rides on later tokens.
    pub(super) fn carries(&self) -> bool {
        self.choices.values().any(|choice| choice.carried_us > 0)
    }

    /// Arrival of the youngest call that the plan admits, and notes that they are scheduled.
    pub(super) fn newest_arrival(&self, plan: &StepPlan) -> i64 {
        let fresh = plan.work.iter().filter(|work| work.first);
        let calls = fresh.filter_map(|work| self.calls.get(&self.choices.get(&work.seq)?.call));
        calls.map(|call| call.job.call.arrival_ns).max().unwrap_or(i64::MIN)
    }

    /// Notes the first step of each call, and who was preempted.
    pub(super) fn scheduled(&mut self, plan: &StepPlan, start_ns: i64) {
        for work in plan.work.iter().filter(|work| work.first) {
            if let Some((choice, call)) = self.choice(work.seq) {
                call.record.scheduled_ns.get_or_insert(start_ns);
                if !choice.scheduled {
                    choice.scheduled = true;
                    // Choices of one prompt count it once, and so what the cache had of it.
                    if choice.index % call.job.call.asked.choices.unwrap_or(1).max(1) == 0 {
                        call.record.cached_tokens += u64::from(work.start);
                    }
                }
            }
        }
        for preempted in &plan.preempted {
            if let Some((choice, call)) = self.choice(preempted.seq) {
                choice.preempted = true;
                call.record.preemptions += 1;
            }
        }
    }

    /// Ends a choice. Returns the call's record if that was its last one.
    pub(super) fn end_choice(&mut self, id: SeqId, reason: Finish) -> Option<CallRecord> {
        let choice = self.choices.remove(&id)?;
        let call = self.calls.get_mut(&choice.call)?;
        call.record.end_choice(choice.index, reason);
        call.open.retain(|open| *open != id);
        // The channel has room for everything a call can say; if the client is gone, nobody listens.
        let _ = call.job.events.try_send(Event::End { choice: choice.index, reason, tokens: choice.output });
        if call.open.is_empty() { self.calls.remove(&choice.call).map(|call| call.record) } else { None }
    }

    /// Calls whose client no longer listens.
    pub(super) fn departed(&self) -> Vec<u64> {
        self.calls.iter().filter(|(_, call)| call.job.events.is_closed()).map(|(key, _)| *key).collect()
    }

    /// Trace and span of every call with work in the step, each once.
    pub(super) fn links(&self, plan: &StepPlan) -> Vec<(u128, u64)> {
        let calls = plan.work.iter().filter_map(|work| self.calls.get(&self.call_of(work.seq)?));
        let mut links: Vec<_> = calls.map(|call| (call.job.call.trace_id, call.job.call.span_id)).collect();
        links.sort_unstable();
        links.dedup();
        links
    }

    /// All open calls, the oldest first.
    pub(super) fn keys(&self) -> Vec<u64> {
        let mut keys: Vec<u64> = self.calls.keys().copied().collect();
        keys.sort_unstable();
        keys
    }

    /// The call that a sequence belongs to.
    pub(super) fn call_of(&self, id: SeqId) -> Option<u64> {
        self.choices.get(&id).map(|choice| choice.call)
    }

    /// Takes a call out, with its sequences that are still open.
    pub(super) fn abort(&mut self, key: u64, outcome: Outcome, at_ns: i64) -> Option<(Vec<SeqId>, CallRecord)> {
        let mut call = self.calls.remove(&key)?;
        match &outcome {
            Outcome::Failed(message) => drop(call.job.events.try_send(Event::Failed(message.clone()))),
            Outcome::Expired => drop(call.job.events.try_send(Event::Expired)),
            Outcome::Complete | Outcome::Cancelled => {}
        }
        for id in &call.open {
            if let Some(choice) = self.choices.remove(id) {
                call.record.end_choice(choice.index, Finish::Abort);
            }
        }
        call.record.outcome = outcome;
        call.record.end_ns = at_ns.max(call.record.end_ns);
        Some((call.open, call.record))
    }
}

impl CallRecord {
    /// Adds a share of a step's device time.
    pub(super) fn add_device(&mut self, phase: Phase, us: u64) {
        match phase {
            Phase::Prefill => self.device_us_prefill += us,
            Phase::Decode => self.device_us_decode += us,
        }
    }
}
