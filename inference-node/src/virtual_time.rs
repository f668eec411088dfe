//! Users of an engine in virtual time: the node's scheduler and engine without its threads, faster than real time.
//!
//! ```text
//! user thinks -> call arrives -> schedule -> engine -> first token … last token -> user thinks
//! ```
//!
//! A step takes as long as the engine's model says, and nothing waits for a clock. The same settings and seed give the
//! same figures, to the last bit.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::engine::{Engine, EngineError, Sampling, SeqId, SequenceInput, StepTime};
use crate::schedule::{self, Offer, Scheduler, StepPlan};

/// Users who each call, read the answer, think, and call again.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosedLoop {
    /// Calls that are open or thought about.
    pub users: u32,
    /// Prompt tokens of a call.
    pub prompt_tokens: RangeInclusive<u32>,
    /// Output tokens of a call.
    pub output_tokens: RangeInclusive<u32>,
    /// Mean time between an answer and the next call, seconds; exponentially distributed.
    pub think_s: f64,
    /// Users begin at random within this time, seconds.
    pub start_s: f64,
    /// Calls of each user that are measured, after one that is not.
    pub calls: u32,
    /// Seed of lengths and times.
    pub seed: u64,
}

/// What the users saw.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Arrival to first token of each call, seconds, ascending.
    pub ttft_s: Vec<f64>,
    /// The same of each user's first call, which is in no other figure.
    pub first_ttft_s: Vec<f64>,
    /// Mean gap between tokens of each call, seconds, ascending.
    pub itl_s: Vec<f64>,
    /// Output tokens a second from the first arrival to the last token.
    pub tokens_per_s: f64,
}

impl Seen {
    /// The value that `share` of the calls do not exceed; values ascend. 0 of no calls.
    pub fn quantile(values: &[f64], share: f64) -> f64 {
        let at = (share * values.len() as f64).ceil() as usize;
        values.get(at.max(1) - 1).or(values.last()).copied().unwrap_or(0.0)
    }

    /// Mean of values; 0 of none.
    pub fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / (values.len().max(1) as f64)
    }
}

/// Runs the load to its end.
///
/// # Errors
/// [`EngineError::Input`] if a call does not fit the engine, and those of its steps.
pub fn closed_loop(engine: &mut dyn Engine, config: schedule::Config, load: &ClosedLoop) -> Result<Seen, EngineError> {
    let about = engine.describe().clone();
    let scheduler = Scheduler::new(config.resolved(&about), about.slots, about.max_len);
    World::new(engine, scheduler, load).run()
}

/// A call in flight.
struct Open {
    user: u32,
    arrival_ns: u64,
    first_ns: Option<u64>,
    wanted: u32,
    output: u32,
}

struct World<'a> {
    engine: &'a mut dyn Engine,
    scheduler: Scheduler,
    load: &'a ClosedLoop,
    rng: StdRng,
    now_ns: u64,
    /// When users call next.
    arrivals: BTreeSet<(u64, u32)>,
    open: BTreeMap<SeqId, Open>,
    /// Calls that each user has completed.
    done: Vec<u32>,
    next: u64,
    tokens: u64,
    seen: Seen,
}

impl<'a> World<'a> {
    fn new(engine: &'a mut dyn Engine, scheduler: Scheduler, load: &'a ClosedLoop) -> Self {
        let mut rng = StdRng::seed_from_u64(load.seed);
        let arrivals = (0..load.users).map(|user| (nanos(rng.random::<f64>() * load.start_s), user)).collect();
        Self {
            engine,
            scheduler,
            load,
            rng,
            now_ns: 0,
            arrivals,
            open: BTreeMap::new(),
            done: vec![0; load.users as usize],
            next: 0,
            tokens: 0,
            seen: Seen::default(),
        }
    }

    fn run(mut self) -> Result<Seen, EngineError> {
        while self.done.iter().any(|calls| *calls <= self.load.calls) {
            while let Some((at_ns, user)) = self.arrivals.first().copied()
                && at_ns <= self.now_ns
            {
                self.arrivals.pop_first();
                self.call(at_ns, user)?;
            }
            match (self.scheduler.plan(), self.arrivals.first()) {
                (Some(plan), _) => self.step(&plan)?,
                (None, Some((at_ns, _))) => self.now_ns = *at_ns,
                (None, None) => break,
            }
        }
        self.seen.tokens_per_s = self.tokens as f64 / seconds(self.now_ns).max(1e-9);
        self.seen.ttft_s.sort_by(f64::total_cmp);
        self.seen.first_ttft_s.sort_by(f64::total_cmp);
        self.seen.itl_s.sort_by(f64::total_cmp);
        Ok(self.seen)
    }

    fn call(&mut self, arrival_ns: u64, user: u32) -> Result<(), EngineError> {
        let id = SeqId(self.next);
        self.next += 1;
        let length = self.rng.random_range(self.load.prompt_tokens.clone());
        let wanted = self.rng.random_range(self.load.output_tokens.clone());
        // No two prompts are alike: what is measured is not the prefix cache.
        let prompt: Arc<[u32]> = (0..length).map(|at| (id.0 as u32).wrapping_mul(65_537).wrapping_add(at)).collect();
        let sampling = Sampling { temperature: 0.0, seed: id.0, ignore_eos: true, ..Sampling::default() };
        let input = SequenceInput { prompt: Arc::clone(&prompt), max_tokens: wanted, sampling };
        self.engine.open(id, input)?;
        let offer = Offer { id, prompt, output_max: wanted, tenant: None, priority: 0, deadline_ns: None };
        self.scheduler.offer(offer).map_err(|refusal| EngineError::Input { reason: refusal.to_string() })?;
        self.open.insert(id, Open { user, arrival_ns, first_ns: None, wanted, output: 0 });
        Ok(())
    }

    fn step(&mut self, plan: &StepPlan) -> Result<(), EngineError> {
        let result = self.engine.step(plan)?;
        let taken = match result.time {
            StepTime::Modelled { device, host, .. } => device + host,
            StepTime::Measured { device, .. } => device,
        };
        self.now_ns += u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX);
        self.scheduler.complete(plan);
        for token in &result.tokens {
            self.token(token.seq);
        }
        Ok(())
    }

    fn token(&mut self, id: SeqId) {
        let Some(open) = self.open.get_mut(&id) else { return };
        self.tokens += 1;
        open.output += 1;
        open.first_ns.get_or_insert(self.now_ns);
        if open.output < open.wanted {
            return;
        }
        self.scheduler.remove(id);
        self.engine.close(id);
        let Some(open) = self.open.remove(&id) else { return };
        let done = &mut self.done[open.user as usize];
        *done += 1;
        let first_ns = open.first_ns.unwrap_or(self.now_ns);
        let ttft_s = seconds(first_ns - open.arrival_ns);
        if *done == 1 {
            self.seen.first_ttft_s.push(ttft_s);
        } else {
            self.seen.ttft_s.push(ttft_s);
            if open.output > 1 {
                self.seen.itl_s.push(seconds(self.now_ns - first_ns) / f64::from(open.output - 1));
            }
        }
        let think_s = -self.load.think_s * (1.0 - self.rng.random::<f64>()).ln();
        self.arrivals.insert((self.now_ns + nanos(think_s), open.user));
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9).max(0.0) as u64
}

#[cfg(test)]
mod tests;
