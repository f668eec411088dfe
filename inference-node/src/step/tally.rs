//! What steps did since the start, for `/metrics` and for the samples.

use service::metrics::{Counter, Registry};
use telemetry::names;

use crate::engine::EngineDescription;
use crate::schedule::{Counters, StepKind, StepPlan};

/// Host time of a step by part, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostTime {
    /// Deciding what the step holds.
    pub(crate) schedule_ns: u64,
    /// The call of the engine: inputs, device, picking tokens.
    pub(crate) execute_ns: u64,
    /// Waiting until a modelled step is over.
    pub(crate) wait_ns: u64,
    /// Text, records, and handing out.
    pub(crate) deliver_ns: u64,
}

impl HostTime {
    /// The parts by name.
    pub(crate) fn parts(self) -> [(&'static str, u64); 4] {
        let Self { schedule_ns, execute_ns, wait_ns, deliver_ns } = self;
        [("schedule", schedule_ns), ("execute", execute_ns), ("wait", wait_ns), ("deliver", deliver_ns)]
    }
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Steps of prompts alone, of decoders alone, of both.
    pub(crate) steps: [u64; 3],
    pub(crate) computed_tokens: u64,
    pub(crate) padding_tokens: u64,
    pub(crate) scheduler: Counters,
    /// As in [`HostTime::parts`], microseconds.
    pub(crate) host_us: [u64; 4],
}

/// Kinds in the order of [`Totals::steps`].
pub(crate) const KINDS: [StepKind; 3] = [StepKind::Prefill, StepKind::Decode, StepKind::Mixed];

/// The counters behind the totals.
pub(crate) struct Tally {
    totals: Totals,
    /// Parts of host time that are not yet a whole microsecond.
    host_ns: [u64; 4],
    steps: [Counter; 3],
    computed_tokens: Counter,
    padding_tokens: Counter,
    host_us: [Counter; 4],
    preemptions: Counter,
    lost_tokens: Counter,
    prefix_queries: Counter,
    prefix_hits: Counter,
    expired: Counter,
}

impl Tally {
    /// Counters of this engine in the registry.
    pub(crate) fn new(registry: &Registry, engine: &EngineDescription) -> Self {
        let labels = [("model_name", engine.model.clone()), ("engine", engine.engine.clone())];
        let plain = |name: &str, help: &str| registry.counter(name, help, &labels);
        let of = |name: &str, help: &str, label: &'static str, value: &str| {
            let labels = [labels[0].clone(), labels[1].clone(), (label, value.to_owned())];
            registry.counter(name, help, &labels)
        };
        let host = "Time of the step thread by part, in microseconds.";
        Self {
            totals: Totals::default(),
            host_ns: [0; 4],
            steps: KINDS.map(|kind| of("tokenwatt_node_steps", "Steps by kind.", "kind", kind.name())),
            computed_tokens: plain("tokenwatt_node_computed_tokens", "Tokens that steps computed for somebody."),
            padding_tokens: plain("tokenwatt_node_padding_tokens", "Tokens that compiled steps computed for nobody."),
            host_us: HostTime::default().parts().map(|(part, _)| of("tokenwatt_node_host_us", host, "part", part)),
            preemptions: plain(names::ENGINE_PREEMPTIONS, "Sequences whose KV memory was taken away."),
            lost_tokens: plain("tokenwatt_node_lost_tokens", "Computed tokens that preempted sequences lost."),
            prefix_queries: plain(names::ENGINE_PREFIX_QUERIES, "Prompt tokens looked up in the prefix cache."),
            prefix_hits: plain(names::ENGINE_PREFIX_HITS, "Prompt tokens found in the prefix cache."),
            expired: plain("tokenwatt_node_expired", "Sequences whose deadline passed."),
        }
    }

    /// Books a step.
    pub(crate) fn step(&mut self, plan: &StepPlan) {
        let kind = KINDS.iter().position(|kind| *kind == plan.kind).unwrap_or(0);
        self.totals.steps[kind] += 1;
        self.steps[kind].inc();
        let (computed, padding) = (u64::from(plan.tokens()), u64::from(plan.padding));
        self.totals.computed_tokens += computed;
        self.computed_tokens.add(computed);
        self.totals.padding_tokens += padding;
        self.padding_tokens.add(padding);
    }

    /// Books host time, whole microseconds; the rest waits for the next step.
    pub(crate) fn host(&mut self, time: HostTime) {
        for (at, (_, ns)) in time.parts().into_iter().enumerate() {
            self.host_ns[at] += ns;
            let us = self.host_ns[at] / 1_000;
            self.host_ns[at] %= 1_000;
            self.totals.host_us[at] += us;
            self.host_us[at].add(us);
        }
    }

    /// Takes over what the scheduler counted.
    pub(crate) fn scheduler(&mut self, now: Counters) {
        let before = std::mem::replace(&mut self.totals.scheduler, now);
        self.preemptions.add(now.preemptions - before.preemptions);
        self.lost_tokens.add(now.lost_tokens - before.lost_tokens);
        self.prefix_queries.add(now.prefix_queries - before.prefix_queries);
        self.prefix_hits.add(now.prefix_hits - before.prefix_hits);
        self.expired.add(now.expired - before.expired);
    }

    /// Counts since the start.
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }
}

/// Whether the step of this number is recorded by itself: so many of every hundred, evenly.
pub(super) fn recorded(number: u64, share: f64) -> bool {
    (number as f64 * share).floor() > ((number - 1) as f64 * share).floor()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::SeqId;
    use crate::schedule::{Phase, Policy, Work};

    fn engine() -> EngineDescription {
        EngineDescription {
            engine: "sim".to_owned(),
            model: "m".to_owned(),
            quantization: None,
            tensor_parallel: None,
            accelerator: None,
            chips: None,
            slots: 4,
            max_len: 128,
            prompt_max: 128,
            likelihoods: false,
            policy: Policy::NeuronSlots,
            prefix_cache: false,
            calibration_error: None,
            simulated: None,
        }
    }

    /// Counters on the page and totals in samples say the same, and parts of a microsecond are not lost.
    #[test]
    fn page_and_samples_agree() {
        let registry = Registry::new();
        let mut tally = Tally::new(&registry, &engine());
        let work = Work {
            seq: SeqId(1),
            slot: 0,
            phase: Phase::Decode,
            start: 7,
            tokens: 1,
            yields: true,
            first: false,
            blocks: Arc::default(),
        };
        let plan = StepPlan { compiled: 4, padding: 3, ..StepPlan::exact(vec![work], Vec::new()) };
        for _ in 0..10 {
            tally.step(&plan);
            tally.host(HostTime { schedule_ns: 300, deliver_ns: 1_500, ..HostTime::default() });
        }
        tally.scheduler(Counters { preemptions: 2, lost_tokens: 90, ..Counters::default() });
        tally.scheduler(Counters { preemptions: 3, lost_tokens: 95, ..Counters::default() });
        let totals = tally.totals();
        assert_eq!((totals.steps, totals.computed_tokens, totals.padding_tokens), ([0, 10, 0], 10, 30));
        assert_eq!(totals.host_us, [3, 0, 0, 15]);
        let page = registry.render();
        for line in [
            "tokenwatt_node_steps_total{engine=\"sim\",kind=\"decode\",model_name=\"m\"} 10",
            "tokenwatt_node_host_us_total{engine=\"sim\",model_name=\"m\",part=\"deliver\"} 15",
            "vllm:num_preemptions_total{engine=\"sim\",model_name=\"m\"} 3",
            "tokenwatt_node_lost_tokens_total{engine=\"sim\",model_name=\"m\"} 95",
        ] {
            assert!(page.contains(line), "{line} is not in {page}");
        }
    }

    /// Of a hundred steps a share of 0.03 takes three, evenly; 1 takes all and 0 none.
    #[test]
    fn steps_are_sampled_evenly() {
        let taken = |share| (1..=100).filter(|number| recorded(*number, share)).collect::<Vec<u64>>();
        assert_eq!(taken(0.03).len(), 3);
        assert_eq!((taken(1.0).len(), taken(0.0).len()), (100, 0));
        assert_eq!(taken(0.25)[..3], [4, 8, 12]);
    }
}
