use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

mod rules;

fn scheduler(policy: Policy, slots: u32, longest: u32, change: impl FnOnce(&mut Config)) -> Scheduler {
    let mut config = Config { policy: Some(policy), ..Config::default() };
    change(&mut config);
    Scheduler::new(config, slots, longest)
}

/// An offer whose prompt nobody else has.
fn offer(id: u64, prompt: u32, output_max: u32) -> Offer {
    let tokens = (0..prompt).map(|at| (id as u32).wrapping_mul(100_003).wrapping_add(at));
    Offer { id: SeqId(id), prompt: tokens.collect(), output_max, tenant: None, priority: 0, deadline_ns: None }
}

/// How a sequence ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Complete,
    Aborted,
    Expired,
}

/// A random life of a scheduler with all invariants checked after every call.
struct World {
    scheduler: Scheduler,
    rng: StdRng,
    /// Output tokens that each open sequence still wants.
    wanted: BTreeMap<SeqId, u32>,
    ended: BTreeMap<SeqId, End>,
    next: u64,
    clock_ns: i64,
    trace: Vec<StepPlan>,
}

impl World {
    fn new(scheduler: Scheduler, seed: u64) -> Self {
        let rng = StdRng::seed_from_u64(seed);
        let (wanted, ended) = (BTreeMap::new(), BTreeMap::new());
        Self { scheduler, rng, wanted, ended, next: 0, clock_ns: 0, trace: Vec::new() }
    }

    fn offer(&mut self) {
        let longest = self.scheduler.longest;
        let prompt = self.rng.random_range(1..=longest * 3 / 4);
        let output_max = self.rng.random_range(1..=longest - prompt);
        // One of three beginnings, which the prefix cache finds again.
        let (id, beginning) = (SeqId(self.next), self.rng.random_range(0..3u32));
        let tokens = (0..prompt).map(|at| if at < longest / 4 { beginning } else { self.next as u32 * 1_000 + at });
        let deadline_ns = self.rng.random_bool(0.2).then(|| self.clock_ns + self.rng.random_range(1..200));
        let offer = Offer {
            id,
            prompt: tokens.collect(),
            output_max,
            tenant: [None, Some("a".into()), Some("b".into())][self.rng.random_range(0..3)].clone(),
            priority: self.rng.random_range(-1..=1),
            deadline_ns,
        };
        self.next += 1;
        if self.scheduler.offer(offer).is_ok() {
            // Some end before their limit, as with a stop text.
            self.wanted.insert(id, self.rng.random_range(1..=output_max));
        }
    }

    fn end(&mut self, id: SeqId, end: End) {
        assert!(self.wanted.remove(&id).is_some());
        assert_eq!(self.ended.insert(id, end), None, "{id:?} ended twice");
        assert!(!self.scheduler.remove(id) || end != End::Expired, "an expired sequence is still there");
    }

    fn abort(&mut self) {
        if self.wanted.is_empty() {
            return;
        }
        let at = self.rng.random_range(0..self.wanted.len());
        let id = *self.wanted.keys().nth(at).unwrap();
        self.end(id, End::Aborted);
        self.check();
    }

    fn step(&mut self) {
        self.clock_ns += 1;
        for id in self.scheduler.expire(self.clock_ns) {
            self.end(id, End::Expired);
        }
        let Some(plan) = self.scheduler.plan() else {
            assert!(self.scheduler.is_idle(), "there is work and no plan");
            return;
        };
        self.check();
        assert!(!plan.work.is_empty());
        let seqs: BTreeSet<_> = plan.work.iter().map(|work| work.seq).collect();
        assert_eq!(seqs.len(), plan.work.len(), "a sequence has two works in one step");
        assert!(plan.preempted.iter().all(|preempted| !seqs.contains(&preempted.seq)));
        self.check_shape(&plan);
        self.scheduler.complete(&plan);
        for work in plan.work.iter().filter(|work| work.yields) {
            let left = self.wanted.get_mut(&work.seq).unwrap();
            *left -= 1;
            if *left == 0 {
                self.end(work.seq, End::Complete);
            }
        }
        self.check();
        self.trace.push(plan);
    }

    fn check_shape(&self, plan: &StepPlan) {
        let scheduler = &self.scheduler;
        let longest = plan.work.iter().map(|work| work.start + work.tokens).max().unwrap();
        assert!(plan.bucket >= longest && plan.bucket <= scheduler.longest.max(longest));
        if scheduler.policy.has_blocks() {
            assert!(plan.tokens() <= scheduler.config.step_tokens_max, "{} tokens in a step", plan.tokens());
            assert_eq!((plan.padding, plan.compiled as usize), (0, plan.work.len()));
            for work in &plan.work {
                let held = work.blocks.len() as u32 * scheduler.config.block_tokens;
                assert!(held >= work.start + work.tokens, "work without memory");
            }
            self.check_writers(plan);
        }
        assert!(plan.preempted.is_empty() || scheduler.policy == Policy::TokenBudget);
        let compiled = match (scheduler.policy, plan.kind) {
            (Policy::NeuronSlots, StepKind::Prefill) => 1,
            (Policy::NeuronSlots, StepKind::Decode) => scheduler.slots,
            (Policy::NeuronSlots | Policy::StaticBatch, StepKind::Mixed) => panic!("a compiled graph has one phase"),
            (Policy::StaticBatch, _) => scheduler.batch,
            _ => return,
        };
        assert_eq!(plan.compiled, compiled);
        let computed = if plan.kind == StepKind::Prefill { compiled * plan.bucket } else { compiled };
        assert_eq!(plan.tokens() + plan.padding, computed);
    }

    /// Nobody writes into a block that another sequence reads: only full blocks before `start` are shared.
    fn check_writers(&self, plan: &StepPlan) {
        let size = self.scheduler.config.block_tokens;
        for work in &plan.work {
            let own = &work.blocks[(work.start / size) as usize..];
            let others = self.scheduler.running.iter().filter(|other| other.id != work.seq);
            for other in others {
                assert!(
                    own.iter().all(|block| !other.blocks.contains(block)),
                    "{:?} writes for {:?}",
                    work.seq,
                    other.id
                );
            }
        }
    }

    /// Slots and blocks are held as the books say, and all are there.
    fn check(&self) {
        let scheduler = &self.scheduler;
        let mut slots: Vec<u32> = scheduler.running.iter().map(|sequence| sequence.slot).collect();
        slots.extend(&scheduler.slots_free);
        slots.sort_unstable();
        assert_eq!(slots, (0..scheduler.slots).collect::<Vec<_>>());
        let held: Vec<u32> = scheduler.running.iter().flat_map(|sequence| sequence.blocks.iter().copied()).collect();
        scheduler.pool.check(&held);
        assert!(scheduler.waiting.iter().all(|sequence| sequence.blocks.is_empty()));
        assert!(scheduler.running.is_sorted_by_key(Sequence::rank));
        let open = scheduler.running.len() + scheduler.waiting.len();
        assert_eq!(open, self.wanted.len());
        assert!((0.0..=1.0).contains(&scheduler.load().kv_usage));
    }

    fn drain(&mut self) {
        let mut steps = 0;
        while !self.scheduler.is_idle() {
            self.step();
            steps += 1;
            assert!(steps < 1_000_000, "work never ends");
        }
        assert!(self.wanted.is_empty());
        let blocks = self.scheduler.blocks();
        assert_eq!(blocks.free, blocks.total, "blocks leaked");
    }
}

fn live(scheduler: Scheduler, seed: u64) -> World {
    let mut world = World::new(scheduler, seed);
    for _ in 0..400 {
        match world.rng.random_range(0..10) {
            0..3 => world.offer(),
            3 => world.abort(),
            _ => world.step(),
        }
    }
    world.drain();
    world
}

fn worlds(seed: u64) -> Vec<Scheduler> {
    let some = (seed % 100) as u32;
    vec![
        scheduler(Policy::NeuronSlots, 1 + some % 7, 512, |_| {}),
        scheduler(Policy::NeuronSlots, 4, 512, |config| config.prompt_bucket_min = 512),
        scheduler(Policy::StaticBatch, 1 + some % 7, 512, |_| {}),
        // Half the blocks that all slots could want, so that preemption happens.
        scheduler(Policy::TokenBudget, 6, 256, |config| {
            config.blocks = 48;
            config.step_tokens_max = 64 + some;
            config.patience = some;
        }),
        scheduler(Policy::TokenBudget, 4, 128, |config| {
            config.blocks = 20;
            config.block_tokens = 8;
            config.chunked_prefill = false;
            config.step_tokens_max = 128;
        }),
        scheduler(Policy::TokenBudget, 6, 256, |config| {
            config.blocks = 40;
            config.prefix_cache = Some(false);
        }),
        scheduler(Policy::Reserve, 6, 256, |config| {
            config.blocks = 48;
            config.step_tokens_max = 64 + some;
        }),
        scheduler(Policy::Reserve, 6, 256, |config| {
            config.blocks = 48;
            config.step_tokens_max = 256;
            config.chunked_prefill = false;
        }),
    ]
}

/// In any order of offers, steps, aborts and deadlines all invariants hold, and everyone who was offered ends once.
#[test]
fn invariants_hold_in_random_lives() {
    let mut seen = Counters::default();
    let mut ends = BTreeSet::new();
    for seed in 0..60 {
        for scheduler in worlds(seed) {
            let world = live(scheduler, seed);
            let counters = world.scheduler.counters();
            let preempted = world.trace.iter().flat_map(|plan| &plan.preempted);
            assert_eq!(preempted.map(|preempted| u64::from(preempted.lost)).sum::<u64>(), counters.lost_tokens);
            assert_eq!(world.ended.values().filter(|end| **end == End::Expired).count() as u64, counters.expired);
            seen.preemptions += counters.preemptions;
            seen.prefix_hits += counters.prefix_hits;
            seen.expired += counters.expired;
            ends.extend(world.ended.values().map(|end| format!("{end:?}")));
        }
    }
    assert!(seen.preemptions > 0 && seen.prefix_hits > 0 && seen.expired > 0, "lives without events: {seen:?}");
    assert_eq!(ends.len(), 3);
}

/// The same inputs give the same plans, to the byte.
#[test]
fn plans_are_deterministic() {
    for seed in 0..5 {
        for (first, second) in worlds(seed).into_iter().zip(worlds(seed)) {
            let (first, second) = (live(first, seed), live(second, seed));
            assert_eq!(format!("{:?}", first.trace), format!("{:?}", second.trace));
        }
    }
}

/// Whatever arrives and however urgent, a sequence that nobody hurries for ends: under every policy, with more work
/// coming than can be done.
#[test]
fn nobody_starves_under_a_flood() {
    for (at, scheduler) in worlds(3).into_iter().enumerate() {
        let (mut world, mut next) = (World::new(scheduler, 0), 1_000);
        let patient = Offer { priority: 5, tenant: Some("quiet".into()), ..offer(0, 40, 30) };
        world.scheduler.offer(patient).unwrap();
        world.wanted.insert(SeqId(0), 30);
        let mut steps = 0;
        while world.wanted.contains_key(&SeqId(0)) {
            while world.scheduler.load().waiting < 3 {
                let urgent = Offer { priority: -5, tenant: Some("loud".into()), ..offer(next, 60, 40) };
                world.scheduler.offer(urgent).unwrap();
                world.wanted.insert(SeqId(next), 40);
                next += 1;
            }
            world.step();
            steps += 1;
            assert!(steps < 100_000, "world {at} starves");
        }
    }
}
