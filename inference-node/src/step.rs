//! The step thread: plans, computes, accounts, hands out.
//!
//! ```text
//! jobs -> open -> plan -> engine.step -> account -> deliver (text to clients, records to the recorder)
//!                   ^                                   |
//!                   +----------- complete --------------+
//! ```
//!
//! Nothing here waits for a client or for the recorder: text goes into channels that have room
//! for all of it, records into a channel that drops and counts. A client that is gone is noticed
//! between two steps, and its slots are free for the next.

mod account;
mod calls;
mod failure;
mod sample;
mod tally;
mod timeline;

pub(crate) use account::Account;
pub(crate) use sample::{Meter, Sample, Sampler, Taken};
pub(crate) use tally::{HostTime, KINDS, Tally, Totals};
pub(crate) use timeline::{NodeClock, Timeline};

use std::sync::Arc;
use std::time::Duration;

use service::channel::Receiver;
use service::health::Component;
use tokio::runtime::Handle;

use crate::engine::{Engine, EngineError, NewToken, SeqId, SequenceInput, StepResult, Text};
use crate::queue::{Event, Finish, Gauges, Job};
use crate::record::{Outcome, Recorder, Stall, StepDetail, StepRecord, TokenMark};
use crate::schedule::{Offer, Phase, Scheduler, StepPlan, Work};
use crate::stream::TextStream;

use calls::{Calls, Choice};
use failure::sound;

/// Everything the step thread owns.
pub(crate) struct Driver {
    engine: Box<dyn Engine>,
    text: Arc<dyn Text>,
    longest: u32,
    scheduler: Scheduler,
    calls: Calls,
    timeline: Timeline,
    account: Account,
    tally: Tally,
    /// Share of steps that are recorded by themselves.
    step_sampling: f64,
    sampler: Sampler,
    meter: Option<Meter>,
    recorder: Recorder,
    gauges: Arc<Gauges>,
    component: Component,
    next_seq: u64,
    steps: u64,
    /// Number of the last step that computed prompt tokens.
    prefill_step: u64,
}

/// What a [`Driver`] is made of.
pub(crate) struct Parts {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) scheduler: Scheduler,
    pub(crate) timeline: Timeline,
    pub(crate) tally: Tally,
    pub(crate) step_sampling: f64,
    pub(crate) meter: Option<Meter>,
    pub(crate) recorder: Recorder,
    pub(crate) gauges: Arc<Gauges>,
    /// Says that the node takes no calls while a lost engine starts again.
    pub(crate) component: Component,
}

impl Driver {
    pub(crate) fn new(parts: Parts) -> Self {
        let start = Sample {
            time_ns: parts.timeline.reached_ns(),
            energy_j: parts.meter.as_ref().map(Meter::joules),
            ..Sample::default()
        };
        Self {
            text: parts.engine.text(),
            longest: parts.engine.describe().max_len,
            engine: parts.engine,
            scheduler: parts.scheduler,
            calls: Calls::default(),
            timeline: parts.timeline,
            account: Account::default(),
            tally: parts.tally,
            step_sampling: parts.step_sampling,
            sampler: Sampler::new(start),
            meter: parts.meter,
            recorder: parts.recorder,
            gauges: parts.gauges,
            component: parts.component,
            next_seq: 0,
            steps: 0,
            prefill_step: 0,
        }
    }

    /// Runs until nobody can send jobs any more and all calls have ended. Blocks its thread.
    ///
    /// # Errors
    /// Why a lost device did not come back; all calls have failed then.
    pub(crate) fn run(mut self, mut jobs: Receiver<Job>, runtime: &Handle) -> Result<(), EngineError> {
        // The start of the counters, against which the first window is reckoned.
        let start = self.sample(self.timeline.reached_ns());
        self.recorder.sample(Taken { now: start, executing: None, power_w: None });
        loop {
            while let Ok(job) = jobs.try_recv() {
                self.open(job);
            }
            for key in self.calls.departed() {
                self.abort(key, Outcome::Cancelled);
            }
            let now = self.timeline.now_ns();
            for id in self.scheduler.expire(now) {
                if let Some(key) = self.calls.call_of(id) {
                    self.abort(key, Outcome::Expired);
                }
            }
            let begun_ns = self.timeline.host_ns();
            let plan = self.scheduler.plan();
            let schedule_ns = self.timeline.host_ns() - begun_ns;
            self.gauges.set(self.scheduler.load());
            self.tally.scheduler(self.scheduler.counters());
            match plan {
                Some(plan) => self.step(&plan, schedule_ns)?,
                None if self.wait(&mut jobs, runtime) => {}
                None => break,
            }
        }
        let now = self.timeline.now_ns();
        self.idle_until(now);
        let last = self.sample(now);
        if let Some(taken) = self.sampler.finish(last) {
            self.recorder.sample(taken);
        }
        Ok(())
    }

    /// Waits for a job or for the next sample. False when no job can come any more.
    fn wait(&mut self, jobs: &mut Receiver<Job>, runtime: &Handle) -> bool {
        let now = self.timeline.now_ns();
        let due = self.sampler.due_ns();
        let left = Duration::from_nanos(u64::try_from(due - now).unwrap_or(0));
        let waited = runtime.block_on(async { tokio::time::timeout(left, jobs.recv()).await });
        match waited {
            Ok(Some(job)) => {
                self.idle_until(self.timeline.reached_ns());
                self.open(job);
                true
            }
            Ok(None) => false,
            Err(_) => {
                self.idle_until(due.max(self.timeline.reached_ns()));
                self.look(false);
                true
            }
        }
    }

    fn idle_until(&mut self, at_ns: i64) {
        self.timeline.idle_until(at_ns);
        if let Some(meter) = &mut self.meter {
            meter.idle_until(at_ns);
        }
    }

    fn sample(&self, time_ns: i64) -> Sample {
        Sample {
            time_ns,
            busy_us: self.account.busy_us,
            padding_us: self.account.padding_us,
            load: self.scheduler.load(),
            totals: self.tally.totals(),
            blocks: self.scheduler.blocks(),
            energy_j: self.meter.as_ref().map(Meter::joules),
        }
    }

    fn look(&mut self, carried: bool) {
        let sample = self.sample(self.timeline.reached_ns());
        for taken in self.sampler.look(sample, carried) {
            self.recorder.sample(taken);
        }
    }

    /// Puts a job's choices into the queue of the scheduler; fails the call if one cannot ever run.
    fn open(&mut self, job: Job) {
        let key = self.next_seq;
        let call = Arc::clone(&job.call);
        let (mut choices, mut fault) = (Vec::new(), None);
        for (index, prompt) in (0u32..).zip(&job.prompts) {
            let id = SeqId(self.next_seq);
            self.next_seq += 1;
            let length = u32::try_from(prompt.len()).unwrap_or(u32::MAX);
            let output_max = call.output_max.min(self.longest.saturating_sub(length)).max(1);
            let mut sampling = call.sampling.clone();
            sampling.seed = sampling.seed.wrapping_add(u64::from(index));
            let input = SequenceInput { prompt: Arc::clone(prompt), max_tokens: output_max, sampling };
            let offer = Offer {
                id,
                prompt: Arc::clone(prompt),
                output_max,
                tenant: call.tenant.clone(),
                priority: call.priority,
                deadline_ns: call.deadline_ns,
            };
            if let Err(refusal) = self.scheduler.offer(offer) {
                fault = Some(refusal.to_string());
            } else if let Err(error) = self.engine.open(id, input) {
                fault = Some(error.to_string());
            }
            let stream = TextStream::new(self.text.decoder(), Arc::clone(&call.stops));
            choices.push((id, Choice::new(key, index, stream, output_max, call.arrival_ns)));
        }
        self.calls.insert(key, job, choices);
        if let Some(fault) = fault {
            self.abort(key, Outcome::Failed(fault));
        }
    }

    fn abort(&mut self, key: u64, outcome: Outcome) {
        let now = self.timeline.now_ns();
        let Some((open, record)) = self.calls.abort(key, outcome, now) else { return };
        for id in open {
            self.scheduler.remove(id);
            self.engine.close(id);
        }
        self.recorder.call(record);
    }

    fn step(&mut self, plan: &StepPlan, schedule_ns: u64) -> Result<(), EngineError> {
        self.steps += 1;
        let start_ns = self.timeline.begin(self.calls.newest_arrival(plan));
        self.calls.scheduled(plan, start_ns);
        let begun_ns = self.timeline.host_ns();
        let result = match self.engine.step(plan).and_then(|result| sound(plan, result)) {
            Ok(result) => result,
            Err(error) => {
                self.book_failed(plan, start_ns, Duration::from_nanos(self.timeline.host_ns() - begun_ns));
                return self.failed(plan, &error);
            }
        };
        let executed_ns = self.timeline.host_ns();
        let (end_ns, device_us) = self.timeline.finish(start_ns, result.time);
        let waited_ns = self.timeline.host_ns();
        let padding_us = self.account.padding_us;
        if let Some(meter) = &mut self.meter {
            meter.step(start_ns, end_ns, result.time.load());
        }
        let shares = self.account.book(device_us, &result.weights, result.padding_weight);
        self.scheduler.complete(plan);
        if plan.work.iter().any(|work| work.phase == Phase::Prefill) {
            self.prefill_step = self.steps;
        }
        let detail = tally::recorded(self.steps, self.step_sampling).then(|| {
            let (seen, padding_us) = (self.scheduler.blocks(), self.account.padding_us - padding_us);
            Box::new(StepDetail {
                number: self.steps,
                start_ns,
                calls: self.calls.links(plan),
                budget: self.scheduler.budget(),
                blocks: seen,
                load: self.scheduler.load(),
                device_us,
                padding_us,
                host: HostTime::default(),
                plan: plan.clone(),
            })
        });
        let (mut record, ended) = self.deliver(plan, &result, &shares, end_ns);
        let host = HostTime {
            schedule_ns,
            execute_ns: executed_ns - begun_ns,
            wait_ns: waited_ns - executed_ns,
            deliver_ns: self.timeline.host_ns() - waited_ns,
        };
        record.detail = detail.map(|detail| Box::new(StepDetail { host, ..*detail }));
        // A call's record comes behind its last token's.
        self.recorder.step(record);
        self.end_choices(ended);
        self.fail_some(&result.failed);
        self.tally.step(plan);
        self.tally.host(host);
        let carried = self.calls.carries();
        self.look(carried);
        Ok(())
    }

    /// Gives every sequence its share and its token. Returns the tokens' record, and whose last token it was.
    fn deliver(
        &mut self,
        plan: &StepPlan,
        result: &StepResult,
        shares: &[u64],
        end_ns: i64,
    ) -> (StepRecord, Vec<(SeqId, Finish)>) {
        let batch = u32::try_from(plan.work.len()).unwrap_or(u32::MAX);
        let mut record = StepRecord { end_ns, batch, tokens: Vec::with_capacity(plan.work.len()), detail: None };
        self.gauges.generated.add(result.tokens.len() as u64);
        let mut tokens = result.tokens.iter().peekable();
        let mut ended = Vec::new();
        for (work, share) in plan.work.iter().zip(shares) {
            let token = tokens.next_if(|token| work.yields && token.seq == work.seq);
            let Some((choice, call)) = self.calls.choice(work.seq) else { continue };
            call.record.add_device(work.phase, *share);
            choice.carried_us += share;
            let Some(token) = token else { continue };
            let stall = stall(work, choice, self.prefill_step, self.timeline.lag_ns(), end_ns);
            if call.job.call.sampled {
                record.tokens.push(TokenMark {
                    call: Arc::clone(&call.job.call),
                    choice: choice.index,
                    index: choice.output,
                    start_ns: choice.left_ns,
                    device_us: choice.carried_us,
                    stall,
                });
            }
            call.record.token(end_ns, choice.left_ns, choice.output == 0);
            choice.left(end_ns, self.steps, self.timeline.lag_ns());
            if let Some(reason) = hand_out(choice, call, token, end_ns) {
                ended.push((work.seq, reason));
            }
        }
        (record, ended)
    }

    fn end_choices(&mut self, ended: Vec<(SeqId, Finish)>) {
        for (id, reason) in ended {
            self.scheduler.remove(id);
            self.engine.close(id);
            if let Some(record) = self.calls.end_choice(id, reason) {
                self.recorder.call(record);
            }
        }
    }
}

/// Sends a token's text. Returns why the choice is over, if it is.
fn hand_out(choice: &mut Choice, call: &mut calls::OpenCall, token: &NewToken, end_ns: i64) -> Option<Finish> {
    let mut piece = if token.end { choice.stream.finish() } else { choice.stream.push(token.token) };
    let reason = match (token.end || piece.stopped, choice.output >= choice.output_max) {
        (true, _) => Some(Finish::Stop),
        (false, true) => Some(Finish::Length),
        (false, false) => None,
    };
    if reason == Some(Finish::Length) {
        piece.text.push_str(&choice.stream.finish().text);
    }
    if !piece.text.is_empty() {
        call.record.content_ns.get_or_insert(end_ns);
    }
    if !piece.text.is_empty() || token.likelihoods.is_some() {
        let likelihoods = token.likelihoods.clone();
        let event = Event::Text { choice: choice.index, text: piece.text, tokens: choice.output, likelihoods };
        // A client that is gone is noticed before the next step.
        let _ = call.job.events.try_send(event);
    }
    reason
}

/// Why the gap before this token was as long as it was.
fn stall(work: &Work, choice: &Choice, prefill_step: u64, lag_ns: i64, end_ns: i64) -> Stall {
    if choice.preempted {
        Stall::Preempted
    } else if choice.output == 0 || work.phase == Phase::Prefill || prefill_step > choice.left_step {
        Stall::Prefill
    } else if 2 * (lag_ns - choice.left_lag_ns) > end_ns - choice.left_ns {
        Stall::Host
    } else {
        Stall::Decode
    }
}

#[cfg(test)]
mod departed;
