use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

fn scheduler(policy: Policy, slots: u32, longest: u32, change: impl FnOnce(&mut Config)) -> Scheduler {
    let mut config = Config { policy, ..Config::default() };
    change(&mut config);
    Scheduler::new(config, slots, longest)
}

/// A random life of a scheduler with all invariants checked after every call.
struct World {
    scheduler: Scheduler,
    rng: StdRng,
    /// Output tokens that each open sequence still wants.
    wanted: BTreeMap<SeqId, u32>,
    next: u64,
    offered: u64,
    finished: u64,
    trace: Vec<StepPlan>,
}

impl World {
    fn new(scheduler: Scheduler, seed: u64) -> Self {
        let rng = StdRng::seed_from_u64(seed);
        Self { scheduler, rng, wanted: BTreeMap::new(), next: 0, offered: 0, finished: 0, trace: Vec::new() }
    }

    fn offer(&mut self) {
        let longest = self.scheduler.longest;
        let prompt = self.rng.random_range(1..=longest * 3 / 4);
        let output = self.rng.random_range(1..=longest - prompt);
        let id = SeqId(self.next);
        self.next += 1;
        if self.scheduler.offer(id, prompt, output).is_ok() {
            self.wanted.insert(id, output);
            self.offered += 1;
        }
    }

    fn abort(&mut self) {
        if self.wanted.is_empty() {
            return;
        }
        let at = self.rng.random_range(0..self.wanted.len());
        let id = *self.wanted.keys().nth(at).unwrap();
        self.wanted.remove(&id);
        assert!(self.scheduler.remove(id));
        self.finished += 1;
        self.check();
    }

    fn step(&mut self) {
        let Some(plan) = self.scheduler.plan() else {
            assert!(self.scheduler.is_idle(), "there is work and no plan");
            return;
        };
        self.check();
        assert!(!plan.work.is_empty());
        let seqs: BTreeSet<_> = plan.work.iter().map(|work| work.seq).collect();
        assert_eq!(seqs.len(), plan.work.len(), "a sequence has two works in one step");
        assert!(plan.preempted.iter().all(|id| !seqs.contains(id)));
        self.check_shape(&plan);
        self.scheduler.complete(&plan);
        for work in plan.work.iter().filter(|work| work.yields) {
            let left = self.wanted.get_mut(&work.seq).unwrap();
            *left -= 1;
            if *left == 0 {
                self.wanted.remove(&work.seq);
                assert!(self.scheduler.remove(work.seq));
                self.finished += 1;
            }
        }
        self.check();
        self.trace.push(plan);
    }

    fn check_shape(&self, plan: &StepPlan) {
        let tokens: u32 = plan.work.iter().map(|work| work.tokens).sum();
        match self.scheduler.config.policy {
            Policy::TokenBudget => {
                assert!(tokens <= self.scheduler.config.step_tokens_max, "{tokens} tokens in a step");
            }
            Policy::NeuronSlots => {
                assert!(plan.preempted.is_empty());
                match plan.kind {
                    StepKind::Prefill => assert_eq!((plan.work.len(), plan.compiled), (1, 1)),
                    StepKind::Decode => assert_eq!(plan.compiled, self.scheduler.slots),
                    StepKind::Mixed => panic!("a compiled graph has one phase"),
                }
                let longest = plan.work.iter().map(|work| work.start + work.tokens).max().unwrap();
                assert!(plan.bucket >= longest && plan.bucket <= self.scheduler.longest.max(longest));
            }
        }
    }

    /// Slots and blocks are held once or free, and all are there.
    fn check(&self) {
        let scheduler = &self.scheduler;
        let mut slots: Vec<u32> = scheduler.running.iter().map(|sequence| sequence.slot).collect();
        slots.extend(&scheduler.slots_free);
        slots.sort_unstable();
        assert_eq!(slots, (0..scheduler.slots).collect::<Vec<_>>());
        let mut blocks: Vec<u32> =
            scheduler.running.iter().flat_map(|sequence| sequence.blocks.iter().copied()).collect();
        blocks.extend(scheduler.pool.free_blocks());
        blocks.sort_unstable();
        assert_eq!(blocks, (0..scheduler.pool.size()).collect::<Vec<_>>());
        assert!(scheduler.waiting.iter().all(|sequence| sequence.blocks.is_empty()));
        let load = scheduler.load();
        assert!((0.0..=1.0).contains(&load.kv_usage));
    }

    fn drain(&mut self) {
        let mut steps = 0;
        while !self.scheduler.is_idle() {
            self.step();
            steps += 1;
            assert!(steps < 1_000_000, "work never ends");
        }
        assert_eq!(self.offered, self.finished);
    }
}

fn live(scheduler: Scheduler, seed: u64) -> Vec<StepPlan> {
    let mut world = World::new(scheduler, seed);
    for _ in 0..400 {
        match world.rng.random_range(0..10) {
            0..3 => world.offer(),
            3 => world.abort(),
            _ => world.step(),
        }
    }
    world.drain();
    world.trace
}

fn worlds(seed: u64) -> Vec<Scheduler> {
    vec![
        scheduler(Policy::NeuronSlots, 1 + (seed % 7) as u32, 512, |_| {}),
        // Half the blocks that all slots could want, so that preemption happens.
        scheduler(Policy::TokenBudget, 6, 256, |config| {
            config.blocks = 48;
            config.step_tokens_max = 64 + (seed % 100) as u32;
        }),
        scheduler(Policy::TokenBudget, 4, 128, |config| {
            config.blocks = 20;
            config.block_tokens = 8;
            config.chunked_prefill = false;
            config.step_tokens_max = 128;
        }),
    ]
}

/// In any order of offers, steps and aborts all invariants hold, and everyone who was offered ends.
#[test]
fn invariants_hold_in_random_lives() {
    let mut preemptions = 0;
    for seed in 0..60 {
        for scheduler in worlds(seed) {
            preemptions += live(scheduler, seed).iter().map(|plan| plan.preempted.len()).sum::<usize>();
        }
    }
    assert!(preemptions > 0, "no life met a preemption");
}

/// The same inputs give the same plans.
#[test]
fn plans_are_deterministic() {
    for seed in 0..5 {
        for (first, second) in worlds(seed).into_iter().zip(worlds(seed)) {
            assert_eq!(live(first, seed), live(second, seed));
        }
    }
}

fn run(scheduler: &mut Scheduler) -> StepPlan {
    let plan = scheduler.plan().unwrap();
    scheduler.complete(&plan);
    plan
}

/// A new prompt goes before running decoders, alone; then all decode in the compiled graph.
#[test]
fn neuron_prefill_stalls_decoders() {
    let mut scheduler = scheduler(Policy::NeuronSlots, 4, 4096, |_| {});
    scheduler.offer(SeqId(1), 100, 10).unwrap();
    assert_eq!(run(&mut scheduler).kind, StepKind::Prefill);
    let decode = run(&mut scheduler);
    assert_eq!((decode.kind, decode.work.len(), decode.compiled, decode.bucket), (StepKind::Decode, 1, 4, 128));
    scheduler.offer(SeqId(2), 300, 10).unwrap();
    scheduler.offer(SeqId(3), 5, 10).unwrap();
    let first = run(&mut scheduler);
    assert_eq!((first.kind, first.work[0].seq, first.bucket), (StepKind::Prefill, SeqId(2), 512));
    assert_eq!(run(&mut scheduler).work[0].seq, SeqId(3));
    let all = run(&mut scheduler);
    assert_eq!((all.work.len(), all.bucket), (3, 512));
}

/// One-token requests that arrive for ever cannot hold a decoder off for ever.
#[test]
fn neuron_decoders_are_not_starved() {
    let mut scheduler = scheduler(Policy::NeuronSlots, 2, 4096, |_| {});
    scheduler.offer(SeqId(0), 10, 100).unwrap();
    run(&mut scheduler);
    let mut decoded = 0;
    for id in 1..100 {
        scheduler.offer(SeqId(id), 10, 1).unwrap();
        let plan = run(&mut scheduler);
        decoded += plan.work.iter().filter(|work| work.seq == SeqId(0)).count();
        for work in plan.work.iter().filter(|work| work.seq != SeqId(0)) {
            scheduler.remove(work.seq);
        }
    }
    assert!(decoded >= 30, "{decoded}");
}

/// A long prompt is cut to the budget that decoders leave, and yields its token with the last piece.
#[test]
fn budget_chunks_prompts() {
    let mut scheduler = scheduler(Policy::TokenBudget, 4, 1024, |config| config.step_tokens_max = 100);
    scheduler.offer(SeqId(1), 10, 50).unwrap();
    run(&mut scheduler);
    scheduler.offer(SeqId(2), 250, 50).unwrap();
    let shares: Vec<_> = (0..3).map(|_| run(&mut scheduler)).collect();
    let chunk = |plan: &StepPlan| plan.work.iter().find(|work| work.seq == SeqId(2)).copied().unwrap();
    assert_eq!(shares.iter().map(|plan| chunk(plan).tokens).collect::<Vec<_>>(), [99, 99, 52]);
    assert_eq!(shares.iter().map(|plan| chunk(plan).yields).collect::<Vec<_>>(), [false, false, true]);
    assert!(shares.iter().all(|plan| plan.kind == StepKind::Mixed && plan.work[0].phase == Phase::Decode));
    assert_eq!(run(&mut scheduler).kind, StepKind::Decode);
}

/// Without room the youngest gives way, waits at the head, and is computed again from its start.
#[test]
fn budget_preempts_the_youngest() {
    let mut scheduler = scheduler(Policy::TokenBudget, 4, 64, |config| {
        config.blocks = 4;
        config.step_tokens_max = 64;
    });
    for id in 1..=2 {
        scheduler.offer(SeqId(id), 31, 33).unwrap();
    }
    run(&mut scheduler);
    scheduler.offer(SeqId(3), 5, 5).unwrap();
    let mut plan = run(&mut scheduler);
    while plan.preempted.is_empty() {
        plan = run(&mut scheduler);
    }
    assert_eq!(plan.preempted, [SeqId(2)]);
    assert_eq!(scheduler.load().waiting, 2);
    scheduler.remove(SeqId(1));
    let again = run(&mut scheduler);
    assert_eq!((again.work[0].seq, again.work[0].start, again.work[0].phase), (SeqId(2), 0, Phase::Prefill));
    assert!(again.work[0].tokens > 31, "output so far is computed again too");
}

/// What can never run is refused at once, with the reason.
#[test]
fn impossible_sequences_are_refused() {
    let mut neuron = scheduler(Policy::NeuronSlots, 2, 128, |_| {});
    assert_eq!(neuron.offer(SeqId(1), 128, 1), Err(Refusal::TooLong { tokens: 129, longest: 128 }));
    let mut budget = scheduler(Policy::TokenBudget, 2, 128, |config| config.blocks = 2);
    assert_eq!(budget.offer(SeqId(1), 30, 90), Err(Refusal::TooBig { needed: 8, pool: 2 }));
    assert!(budget.offer(SeqId(1), 30, 2).is_ok());
}

/// A sequence that waits can be taken back, one that is unknown cannot.
#[test]
fn removal() {
    let mut scheduler = scheduler(Policy::NeuronSlots, 1, 128, |_| {});
    scheduler.offer(SeqId(1), 5, 5).unwrap();
    assert!(scheduler.remove(SeqId(1)));
    assert!(!scheduler.remove(SeqId(1)));
    assert!(scheduler.plan().is_none() && scheduler.is_idle());
}
