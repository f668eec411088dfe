//! Each rule by itself.

use super::*;

fn run(scheduler: &mut Scheduler) -> StepPlan {
    let plan = scheduler.plan().unwrap();
    scheduler.complete(&plan);
    plan
}

fn take(scheduler: &mut Scheduler, id: u64, prompt: u32, output_max: u32) {
    scheduler.offer(offer(id, prompt, output_max)).unwrap();
}

fn seqs(plan: &StepPlan) -> Vec<u64> {
    plan.work.iter().map(|work| work.seq.0).collect()
}

/// A new prompt goes before running decoders, alone; then all decode in the compiled graph.
#[test]
fn neuron_prefill_stalls_decoders() {
    let mut scheduler = scheduler(Policy::NeuronSlots, 4, 4096, |_| {});
    take(&mut scheduler, 1, 100, 10);
    let prefill = run(&mut scheduler);
    assert_eq!((prefill.kind, prefill.bucket, prefill.padding), (StepKind::Prefill, 128, 28));
    let decode = run(&mut scheduler);
    assert_eq!((decode.kind, decode.work.len(), decode.compiled, decode.bucket), (StepKind::Decode, 1, 4, 128));
    assert_eq!(decode.padding, 3);
    take(&mut scheduler, 2, 300, 10);
    take(&mut scheduler, 3, 5, 10);
    let first = run(&mut scheduler);
    assert_eq!((first.kind, first.work[0].seq, first.bucket), (StepKind::Prefill, SeqId(2), 512));
    assert_eq!(run(&mut scheduler).work[0].seq, SeqId(3));
    let all = run(&mut scheduler);
    assert_eq!((all.work.len(), all.bucket), (3, 512));
}

/// One compiled prompt length makes every prompt that long.
#[test]
fn neuron_single_prompt_bucket() {
    let mut scheduler = scheduler(Policy::NeuronSlots, 4, 4096, |config| config.prompt_bucket_min = 4096);
    take(&mut scheduler, 1, 1500, 10);
    assert_eq!((run(&mut scheduler).bucket, run(&mut scheduler).bucket), (4096, 2048));
}

/// One-token requests that arrive for ever cannot hold a decoder off for ever.
#[test]
fn neuron_decoders_are_not_starved() {
    let mut scheduler = scheduler(Policy::NeuronSlots, 2, 4096, |_| {});
    take(&mut scheduler, 0, 10, 100);
    run(&mut scheduler);
    let mut decoded = 0;
    for id in 1..100 {
        take(&mut scheduler, id, 10, 1);
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
    take(&mut scheduler, 1, 10, 50);
    run(&mut scheduler);
    take(&mut scheduler, 2, 250, 50);
    let shares: Vec<_> = (0..3).map(|_| run(&mut scheduler)).collect();
    let chunk = |plan: &StepPlan| plan.work.iter().find(|work| work.seq == SeqId(2)).cloned().unwrap();
    assert_eq!(shares.iter().map(|plan| chunk(plan).tokens).collect::<Vec<_>>(), [99, 99, 52]);
    assert_eq!(shares.iter().map(|plan| chunk(plan).yields).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(shares.iter().map(|plan| chunk(plan).first).collect::<Vec<_>>(), [true, false, false]);
    assert!(shares.iter().all(|plan| plan.kind == StepKind::Mixed && plan.work[0].phase == Phase::Decode));
    assert_eq!(run(&mut scheduler).kind, StepKind::Decode);
}

/// Without room the youngest gives way, waits at the head, and is computed again from its start.
#[test]
fn budget_preempts_the_youngest() {
    let mut scheduler = scheduler(Policy::TokenBudget, 4, 64, |config| {
        config.blocks = 4;
        config.step_tokens_max = 64;
        config.prefix_cache = Some(false);
    });
    for id in 1..=2 {
        take(&mut scheduler, id, 31, 33);
    }
    run(&mut scheduler);
    take(&mut scheduler, 3, 5, 5);
    let mut plan = run(&mut scheduler);
    while plan.preempted.is_empty() {
        plan = run(&mut scheduler);
    }
    assert_eq!(plan.preempted, [Preempted { seq: SeqId(2), lost: 32 }]);
    assert_eq!(scheduler.load().waiting, 2);
    scheduler.remove(SeqId(1));
    let again = run(&mut scheduler);
    let work = &again.work[0];
    assert_eq!((work.seq, work.start, work.phase, work.first), (SeqId(2), 0, Phase::Prefill, true));
    assert!(work.tokens > 31, "output so far is computed again too");
}

/// The less urgent gives way, though it came first, and waits behind the urgent.
#[test]
fn budget_preempts_the_least_urgent() {
    let mut scheduler = scheduler(Policy::TokenBudget, 4, 64, |config| config.blocks = 4);
    scheduler.offer(Offer { priority: 3, ..offer(1, 31, 33) }).unwrap();
    run(&mut scheduler);
    take(&mut scheduler, 2, 31, 33);
    let mut plan = run(&mut scheduler);
    while plan.preempted.is_empty() {
        plan = run(&mut scheduler);
    }
    assert_eq!((plan.preempted[0].seq, seqs(&plan)), (SeqId(1), vec![2]));
}

/// A prompt that begins as another one did starts where that ends, in the same blocks; its last token is computed.
#[test]
fn prefix_is_read_from_the_cache() {
    let mut scheduler = scheduler(Policy::TokenBudget, 4, 256, |_| {});
    let prompt: Arc<[u32]> = (0..64).collect();
    let same = |id: u64| Offer { prompt: Arc::clone(&prompt), ..offer(id, 0, 5) };
    scheduler.offer(same(1)).unwrap();
    let first = run(&mut scheduler);
    scheduler.offer(same(2)).unwrap();
    let second = run(&mut scheduler);
    let work = second.work.iter().find(|work| work.seq == SeqId(2)).unwrap();
    // 64 tokens are four blocks; the last one is left, since its last token must be computed.
    assert_eq!((work.start, work.tokens, work.yields), (48, 16, true));
    assert_eq!(work.blocks[..3], first.work[0].blocks[..3]);
    let counters = scheduler.counters();
    assert_eq!((counters.prefix_queries, counters.prefix_hits), (128, 48));
    // The blocks outlive those who computed them, until their memory is needed.
    scheduler.remove(SeqId(1));
    scheduler.remove(SeqId(2));
    assert_eq!(scheduler.blocks(), Blocks { total: 64, free: 64 });
    scheduler.offer(same(3)).unwrap();
    assert_eq!(run(&mut scheduler).work[0].start, 48);
    scheduler.remove(SeqId(3));
    for id in 4..8 {
        take(&mut scheduler, id, 255, 1);
    }
    while scheduler.load().kv_usage < 1.0 {
        run(&mut scheduler);
    }
    (4..8).for_each(|id| assert!(scheduler.remove(SeqId(id))));
    scheduler.offer(same(9)).unwrap();
    assert_eq!(run(&mut scheduler).work[0].start, 0, "evicted blocks are found again");
}

/// A prompt with the same tokens behind another beginning is another prompt.
#[test]
fn prefix_must_begin_alike() {
    let mut scheduler = scheduler(Policy::TokenBudget, 4, 256, |_| {});
    let with = |id: u64, first: u32| {
        let tokens = (0..64).map(|at| if at == 0 { first } else { at });
        Offer { prompt: tokens.collect(), ..offer(id, 0, 5) }
    };
    scheduler.offer(with(1, 7)).unwrap();
    run(&mut scheduler);
    scheduler.offer(with(2, 8)).unwrap();
    let plan = run(&mut scheduler);
    assert_eq!(plan.work.iter().find(|work| work.seq == SeqId(2)).unwrap().start, 0);
}

/// With its memory set aside at admission nobody is preempted; who does not fit waits, though a slot is free.
#[test]
fn reserve_sets_memory_aside() {
    let mut scheduler = scheduler(Policy::Reserve, 4, 128, |config| config.blocks = 8);
    take(&mut scheduler, 1, 20, 60);
    take(&mut scheduler, 2, 20, 60);
    let plan = run(&mut scheduler);
    assert_eq!((seqs(&plan), plan.work[0].blocks.len(), scheduler.load().waiting), (vec![1], 5, 1));
    for _ in 0..40 {
        assert!(run(&mut scheduler).preempted.is_empty());
    }
    scheduler.remove(SeqId(1));
    assert_eq!(seqs(&run(&mut scheduler)), [2]);
}

/// Without chunks, prompts interrupt the decoders once enough of them wait, or after enough decode steps.
#[test]
fn reserve_lets_prompts_in_by_ratio_or_after_steps() {
    let mut scheduler = scheduler(Policy::Reserve, 16, 128, |config| {
        config.chunked_prefill = false;
        config.waiting_steps_max = 5;
    });
    for id in 0..8 {
        take(&mut scheduler, id, 10, 100);
    }
    let first = run(&mut scheduler);
    assert_eq!((first.kind, first.work.len()), (StepKind::Prefill, 8));
    // 30 % of 8 are 2: one more waits for its turn, two do not.
    take(&mut scheduler, 8, 10, 100);
    let kinds: Vec<_> = (0..6).map(|_| run(&mut scheduler).kind).collect();
    assert_eq!(kinds[..5], [StepKind::Decode; 5]);
    assert_eq!(kinds[5], StepKind::Prefill);
    take(&mut scheduler, 9, 10, 100);
    take(&mut scheduler, 10, 10, 100);
    assert_eq!(seqs(&run(&mut scheduler)), [9, 10]);
    assert_eq!(run(&mut scheduler).work.len(), 11);
}

/// Nobody joins a static batch, and what ended in it is padding until the last one ends.
#[test]
fn static_batch_is_closed() {
    let mut scheduler = scheduler(Policy::StaticBatch, 4, 1024, |_| {});
    take(&mut scheduler, 1, 100, 10);
    take(&mut scheduler, 2, 300, 10);
    let prefill = run(&mut scheduler);
    assert_eq!((prefill.compiled, prefill.bucket, prefill.padding), (2, 512, 2 * 512 - 400));
    take(&mut scheduler, 3, 100, 10);
    scheduler.remove(SeqId(1));
    let decode = run(&mut scheduler);
    assert_eq!((seqs(&decode), decode.compiled, decode.padding), (vec![2], 2, 1));
    scheduler.remove(SeqId(2));
    assert_eq!(seqs(&run(&mut scheduler)), [3]);
}

/// Tenants that wait take turns by what they got, however many calls one of them has.
#[test]
fn tenants_share_the_engine() {
    let mut scheduler = scheduler(Policy::NeuronSlots, 1, 1024, |config| config.patience = 1_000);
    let of = |id: u64, tenant: &str| Offer { tenant: Some(tenant.into()), ..offer(id, 100, 20) };
    for id in 0..30 {
        scheduler.offer(of(id, "loud")).unwrap();
    }
    for id in 100..110 {
        scheduler.offer(of(id, "quiet")).unwrap();
    }
    let mut order = Vec::new();
    while order.len() < 20 {
        let plan = run(&mut scheduler);
        order.extend(plan.work.iter().filter(|work| work.first).map(|work| work.seq.0 >= 100));
        if plan.kind == StepKind::Decode {
            scheduler.remove(plan.work[0].seq);
        }
    }
    assert_eq!(order.iter().filter(|quiet| **quiet).count(), 10, "{order:?}");
}

/// A tenant that was away does not come back with everything it did not use.
#[test]
fn idle_tenants_save_nothing_up() {
    let mut scheduler = scheduler(Policy::NeuronSlots, 1, 1024, |config| config.patience = 1_000);
    let of = |id: u64, tenant: &str| Offer { tenant: Some(tenant.into()), ..offer(id, 100, 20) };
    for id in 0..20 {
        scheduler.offer(of(id, "busy")).unwrap();
        while scheduler.remove(SeqId(id)) {}
    }
    for id in 100..120 {
        scheduler.offer(of(id, "busy")).unwrap();
    }
    let mut order = Vec::new();
    for round in 0..20 {
        if round == 10 {
            (200..210).for_each(|id| scheduler.offer(of(id, "back")).unwrap());
        }
        let plan = run(&mut scheduler);
        order.extend(plan.work.iter().map(|work| work.seq.0 >= 200));
        scheduler.remove(plan.work[0].seq);
    }
    let back = order[10..].iter().filter(|back| **back).count();
    assert!((4..=6).contains(&back), "{order:?}");
}

/// Urgent calls go first, but not for ever: after `patience` later ones the oldest goes before all.
#[test]
fn priority_has_an_end() {
    let mut scheduler = scheduler(Policy::NeuronSlots, 1, 1024, |config| config.patience = 5);
    scheduler.offer(Offer { priority: 1, ..offer(0, 10, 1) }).unwrap();
    let mut order = Vec::new();
    for id in 1..10 {
        take(&mut scheduler, id, 10, 1);
        let plan = run(&mut scheduler);
        order.extend(seqs(&plan));
        scheduler.remove(plan.work[0].seq);
    }
    assert_eq!(order.iter().position(|id| *id == 0), Some(6), "{order:?}");
}

/// A deadline ends a sequence wherever it is, and frees what it held.
#[test]
fn deadlines_end_sequences() {
    let mut scheduler = scheduler(Policy::TokenBudget, 1, 128, |_| {});
    let until = |id: u64, deadline_ns| Offer { deadline_ns: Some(deadline_ns), ..offer(id, 30, 20) };
    scheduler.offer(until(1, 50)).unwrap();
    scheduler.offer(until(2, 20)).unwrap();
    scheduler.offer(until(3, 90)).unwrap();
    run(&mut scheduler);
    assert_eq!(scheduler.expire(10), []);
    assert_eq!(scheduler.expire(20), [SeqId(2)]);
    assert_eq!(scheduler.expire(60), [SeqId(1)]);
    assert_eq!(scheduler.blocks().free, scheduler.blocks().total);
    assert_eq!(seqs(&run(&mut scheduler)), [3]);
    assert!(scheduler.remove(SeqId(3)));
    assert_eq!((scheduler.expire(1_000), scheduler.counters().expired), (Vec::new(), 2));
}

/// What can never run is refused at once, with the reason.
#[test]
fn impossible_sequences_are_refused() {
    let mut neuron = scheduler(Policy::NeuronSlots, 2, 128, |_| {});
    assert_eq!(neuron.offer(offer(1, 128, 1)), Err(Refusal::TooLong { tokens: 129, longest: 128 }));
    for policy in [Policy::TokenBudget, Policy::Reserve] {
        let mut budget = scheduler(policy, 2, 128, |config| config.blocks = 2);
        assert_eq!(budget.offer(offer(1, 30, 90)), Err(Refusal::TooBig { needed: 8, pool: 2 }));
        assert!(budget.offer(offer(1, 30, 2)).is_ok());
    }
}

/// A sequence that waits can be taken back, one that is unknown cannot.
#[test]
fn removal() {
    let mut scheduler = scheduler(Policy::NeuronSlots, 1, 128, |_| {});
    take(&mut scheduler, 1, 5, 5);
    assert!(scheduler.remove(SeqId(1)));
    assert!(!scheduler.remove(SeqId(1)));
    assert!(scheduler.plan().is_none() && scheduler.is_idle());
}
