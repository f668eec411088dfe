//! Decides what the engine does next: a pure, deterministic core without clock or I/O.
//!
//! ```text
//! offer -> waiting (priority, tenant, arrival) -> plan (admit, preempt, batch) -> engine -> complete -> remove
//! ```
//!
//! The same offers and completions give the same plans, so a fleet can be simulated faster than
//! real time and every rule can be tested exactly.
//!
//! Invariants (each a property test):
//! 1. A slot belongs to at most one sequence, and is free again when the sequence is gone.
//! 2. A block is held by those who read it, or free; only a cached one is held by more than one.
//! 3. A step never computes more tokens than the budget (`token_budget`, `reserve`).
//! 4. Whoever is offered is finished after finitely many steps, whatever arrives meanwhile and however urgent it is.
//! 5. Whoever is offered ends once: removed by the caller, or expired.

mod plan;
mod policy;
mod sequence;
mod block;
mod waiting;
mod neuron_slots;
mod token_budget;
mod reserve;
mod static_batch;

pub use plan::{Phase, Preempted, StepKind, StepPlan, Work};
pub use policy::{Config, Policy};

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::SeqId;

use block::BlockPool;
use sequence::Sequence;
use waiting::Waiting;

/// What is going on, for gauges.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Sequences admitted.
    pub running: u32,
    /// Sequences waiting.
    pub waiting: u32,
    /// Share of the KV memory in use, 0 to 1.
    pub kv_usage: f64,
}

/// A sequence that can never run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Prompt and one output token are longer than the engine's longest sequence.
    #[error("{tokens} tokens are longer than the model's {longest}")]
    TooLong {
        /// Tokens of prompt plus one.
        tokens: u32,
        /// Longest sequence.
        longest: u32,
    },
    /// The whole pool of KV blocks could not hold it.
    #[error("{needed} blocks are more than the pool's {pool}")]
    TooBig {
        /// Blocks needed at its longest.
        needed: u32,
        /// Blocks of the pool.
        pool: u32,
    },
}

/// A sequence on its way in.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Its name; never used again.
    pub id: SeqId,
    /// Prompt token ids; an empty one counts as one token.
    pub prompt: Arc<[u32]>,
    /// Most output tokens.
    pub output_max: u32,
    /// Whom it is served for; tenants that wait take turns by what they got.
    pub tenant: Option<Arc<str>>,
    /// Lower is more urgent, as in vLLM; 0 is usual.
    pub priority: i32,
    /// Instant after which nobody wants the answer, on the caller's clock.
    pub deadline_ns: Option<i64>,
}

/// What happened since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sequences whose memory was taken away.
    pub preemptions: u64,
    /// Computed tokens that these lost.
    pub lost_tokens: u64,
    /// Prompt tokens that were looked up in the prefix cache.
    pub prefix_queries: u64,
    /// Those of them that were found.
    pub prefix_hits: u64,
    /// Sequences whose deadline passed.
    pub expired: u64,
}

/// KV memory in blocks; all 0 where a policy has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// Blocks of the pool.
    pub total: u32,
    /// Blocks that nobody holds, cached ones included.
    pub free: u32,
}

/// The scheduler. Every method is deterministic.
#[derive(Debug)]
pub struct Scheduler {
    config: Config,
    policy: Policy,
    slots: u32,
    longest: u32,
    waiting: Waiting,
    /// By rank.
    running: Vec<Sequence>,
    /// Sorted descending: the lowest free slot is the last.
    slots_free: Vec<u32>,
    pool: BlockPool,
    deadlines: BTreeSet<(i64, SeqId)>,
    counters: Counters,
    arrivals: u64,
    admissions: u64,
    prefills_in_a_row: u32,
    decodes_in_a_row: u32,
    /// Sequences of the static batch, finished ones included.
    batch: u32,
}

impl Scheduler {
    /// A scheduler for an engine that holds `slots` sequences of at most `longest` tokens. Settings without a policy mean
    /// `neuron_slots`.
    pub fn new(config: Config, slots: u32, longest: u32) -> Self {
        let slots = slots.max(1);
        let policy = config.policy.unwrap_or(Policy::NeuronSlots);
        let blocks = if policy.has_blocks() { config.pool_blocks(slots, longest) } else { 0 };
        Self {
            pool: BlockPool::new(blocks, config.block_tokens.max(1)),
            waiting: Waiting::new(config.patience),
            config,
            policy,
            slots,
            longest,
            running: Vec::new(),
            slots_free: (0..slots).rev().collect(),
            deadlines: BTreeSet::new(),
            counters: Counters::default(),
            arrivals: 0,
            admissions: 0,
            prefills_in_a_row: 0,
            decodes_in_a_row: 0,
            batch: 0,
        }
    }

    /// Puts a sequence into the queue.
    ///
    /// # Errors
    /// When it could never run.
    pub fn offer(&mut self, offer: Offer) -> Result<(), Refusal> {
        let prompt = u32::try_from(offer.prompt.len()).unwrap_or(u32::MAX).max(1);
        let longest = prompt.saturating_add(offer.output_max).min(self.longest);
        self.check(prompt, longest)?;
        self.arrivals += 1;
        self.deadlines.extend(offer.deadline_ns.map(|deadline| (deadline, offer.id)));
        self.waiting.push(Sequence {
            id: offer.id,
            tokens: offer.prompt,
            prompt,
            longest,
            tenant: offer.tenant,
            priority: offer.priority,
            deadline_ns: offer.deadline_ns,
            arrival: self.arrivals,
            turn: 0,
            overdue: false,
            admission: 0,
            preemptions: 0,
            fresh: false,
            output: 0,
            computed: 0,
            slot: 0,
            blocks: Arc::default(),
        });
        Ok(())
    }

    fn check(&self, prompt: u32, longest: u32) -> Result<(), Refusal> {
        if prompt >= self.longest {
            return Err(Refusal::TooLong { tokens: prompt.saturating_add(1), longest: self.longest });
        }
        if !self.policy.has_blocks() {
            return Ok(());
        }
        let needed = self.pool.blocks_for(longest);
        if needed > self.pool.size() {
            return Err(Refusal::TooBig { needed, pool: self.pool.size() });
        }
        // Who can be preempted must be able to compute its output again in one piece.
        let piece = if self.policy == Policy::TokenBudget { longest } else { prompt };
        if !self.config.chunked_prefill && piece > self.config.step_tokens_max {
            return Err(Refusal::TooLong { tokens: piece, longest: self.config.step_tokens_max });
        }
        Ok(())
    }

    /// Takes out everyone whose deadline has passed at `now_ns`, waiting or running; their slots and blocks are free.
    pub fn expire(&mut self, now_ns: i64) -> Vec<SeqId> {
        let mut expired = Vec::new();
        while let Some((deadline_ns, id)) = self.deadlines.first().copied()
            && deadline_ns <= now_ns
        {
            self.deadlines.pop_first();
            self.remove(id);
            self.counters.expired += 1;
            expired.push(id);
        }
        expired
    }

    /// The next step, or `None` when nothing can be done. Admission and preemption happen here.
    pub fn plan(&mut self) -> Option<StepPlan> {
        match self.policy {
            Policy::NeuronSlots => self.plan_neuron_slots(),
            Policy::TokenBudget => self.plan_token_budget(),
            Policy::Reserve => self.plan_reserve(),
            Policy::StaticBatch => self.plan_static_batch(),
        }
    }

    /// Takes note that a step was carried out.
    pub fn complete(&mut self, plan: &StepPlan) {
        // Work stands in the order of the running sequences, so each is found right behind the one before.
        let mut at = 0;
        for work in &plan.work {
            let order = (at..self.running.len()).chain(0..at);
            let Some(found) = order.into_iter().find(|at| self.running[*at].id == work.seq) else { continue };
            at = found + 1;
            let sequence = &mut self.running[found];
            sequence.computed += work.tokens;
            sequence.output += u32::from(work.yields);
            if work.yields {
                self.waiting.charge(&sequence.tenant);
            }
            if self.config.reads_prefixes() && work.phase == Phase::Prefill {
                self.pool.remember(&sequence.tokens, &sequence.blocks, sequence.computed);
            }
        }
    }

    /// Forgets a sequence, wherever it is; its slot and blocks are free at once. False if unknown.
    pub fn remove(&mut self, id: SeqId) -> bool {
        let running = self.running.iter().position(|sequence| sequence.id == id);
        let sequence = match running {
            Some(at) => {
                let sequence = self.running.remove(at);
                self.release(&sequence);
                self.waiting.left(&sequence.tenant);
                sequence
            }
            None => match self.waiting.remove(id) {
                Some(sequence) => sequence,
                None => return false,
            },
        };
        if let Some(deadline_ns) = sequence.deadline_ns {
            self.deadlines.remove(&(deadline_ns, id));
        }
        true
    }

    /// Whether nothing runs and nothing waits.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// Gauges.
    pub fn load(&self) -> Load {
        let running = u32::try_from(self.running.len()).unwrap_or(u32::MAX);
        let kv_usage =
            if self.policy.has_blocks() { self.pool.usage() } else { f64::from(running) / f64::from(self.slots) };
        Load { running, waiting: u32::try_from(self.waiting.len()).unwrap_or(u32::MAX), kv_usage }
    }

    /// What happened since the start.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Most tokens of a step; `None` where a policy has no budget.
    pub fn budget(&self) -> Option<u32> {
        self.policy.has_blocks().then_some(self.config.step_tokens_max)
    }

    /// KV memory in blocks.
    pub fn blocks(&self) -> Blocks {
        Blocks { total: self.pool.size(), free: u32::try_from(self.pool.free_count()).unwrap_or(u32::MAX) }
    }

    /// Lets an admitted sequence run, in its place by rank.
    fn run(&mut self, mut sequence: Sequence) {
        if sequence.preemptions == 0 {
            self.admissions += 1;
            sequence.admission = self.admissions;
        }
        let at = self.running.partition_point(|other| other.rank() < sequence.rank());
        self.running.insert(at, sequence);
    }

    /// Gives slot and blocks back.
    fn release(&mut self, sequence: &Sequence) {
        let at = self.slots_free.partition_point(|free| *free > sequence.slot);
        self.slots_free.insert(at, sequence.slot);
        self.pool.free(&sequence.blocks);
    }

    /// Smallest compiled length that holds `tokens`.
    fn bucket(&self, tokens: u32) -> u32 {
        telemetry::step::bucket(tokens, self.longest)
    }
}

#[cfg(test)]
mod tests;
