//! The node's own `/metrics`, under the names that vLLM's dashboards know.

mod relayed;

pub(crate) use relayed::RelayedCalls;

use std::sync::Arc;
use std::time::Duration;

use service::metrics::{Counter, Histogram, Registry};
use telemetry::names;

use crate::engine::EngineDescription;
use crate::queue::{Finish, Gauges};
use crate::record::{CallRecord, Outcome, Record, StepRecord};

/// Registers what the step thread writes.
pub(crate) fn gauges(registry: &Registry, engine: &EngineDescription) -> Arc<Gauges> {
    let labels = labels(engine);
    let generated = registry.counter("vllm:generation_tokens_total", "Output tokens.", &labels);
    let gauges = Arc::new(Gauges::new(generated));
    let observe = |name: &str, help: &str, read: fn(&Gauges) -> f64| {
        let gauges = Arc::clone(&gauges);
        registry.observe(name, help, &labels, move || Some(read(&gauges)));
    };
    observe(names::ENGINE_RUNNING, "Sequences in the batch.", |gauges| f64::from(gauges.load().running));
    observe(names::ENGINE_WAITING, "Sequences that wait for a slot.", |gauges| f64::from(gauges.load().waiting));
    observe(names::ENGINE_KV_USAGE, "Share of the KV memory in use, 0 to 1.", |gauges| gauges.load().kv_usage);
    observe("vllm:gpu_cache_usage_perc", "The same under the name of older versions.", |gauges| gauges.load().kv_usage);
    let slots = f64::from(engine.slots);
    if let Some(error) = engine.calibration_error {
        let help = "Mean error of the simulated step times against the rows they were fitted on; docs/calibration.md.";
        registry.observe("tokenwatt_node_calibration_error_ratio", help, &labels, move || Some(error));
    }
    registry.observe("tokenwatt_node_slots", "Sequences that a step can hold.", &labels, move || Some(slots));
    gauges
}

fn labels(engine: &EngineDescription) -> [(&'static str, String); 2] {
    labels_of(&engine.model, &engine.engine)
}

fn labels_of(model: &str, engine: &str) -> [(&'static str, String); 2] {
    [("model_name", model.to_owned()), ("engine", engine.to_owned())]
}

/// What the node's own metrics count of its records.
pub(crate) enum Counting {
    /// Those of an engine of its own.
    Served(Box<Served>),
    /// Those of a proxy.
    Relayed(RelayedCalls),
}

impl Counting {
    /// Takes note of one record.
    pub(crate) fn count(&mut self, record: &Record) {
        match (self, record) {
            (Self::Served(served), record) => served.count(record),
            (Self::Relayed(calls), Record::Relayed(relayed)) => calls.count(relayed),
            (Self::Relayed(_), _) => {}
        }
    }
}

/// Counts calls that are over, and gaps between tokens. Lives on the recorder's thread; what its queue had no room for is in
/// the counter of lost spans and not here.
pub(crate) struct Served {
    prompt_tokens: Counter,
    /// By reason: stop, length, abort.
    finished: [Counter; 3],
    first_token: Histogram,
    whole: Histogram,
    queue: Histogram,
    prefill: Histogram,
    decode: Histogram,
    inference: Histogram,
    per_token: Histogram,
    /// Gaps between recorded tokens, under the newer and the older name.
    gaps: [Histogram; 2],
    prompt: Histogram,
    generated: Histogram,
    limit: Histogram,
}

impl Served {
    pub(crate) fn new(registry: &Registry, engine: &EngineDescription) -> Self {
        let labels = labels(engine);
        let seconds = |name: &str, help: &str| registry.histogram(name, help, &labels);
        let tokens = |name: &str, help: &str| registry.histogram_of_tokens(name, help, &labels);
        let finished = |reason: Finish| {
            let labels = [&labels[..], &[("finished_reason", reason.name().to_owned())]].concat();
            registry.counter("vllm:request_success_total", "Choices that ended, by reason.", &labels)
        };
        let gap = "Time between two tokens of a choice, of the calls whose tokens are recorded.";
        Self {
            prompt_tokens: registry.counter(
                "vllm:prompt_tokens_total",
                "Prompt tokens of calls that are over.",
                &labels,
            ),
            finished: [Finish::Stop, Finish::Length, Finish::Abort].map(finished),
            first_token: seconds("vllm:time_to_first_token_seconds", "Arrival to first token with content."),
            whole: seconds("vllm:e2e_request_latency_seconds", "Arrival to last token."),
            queue: seconds("vllm:request_queue_time_seconds", "Arrival to first step."),
            prefill: seconds("vllm:request_prefill_time_seconds", "First step to first token."),
            decode: seconds("vllm:request_decode_time_seconds", "First token to last."),
            inference: seconds("vllm:request_inference_time_seconds", "First step to last token."),
            per_token: seconds(
                "vllm:request_time_per_output_token_seconds",
                "Mean time per token after the first, by call.",
            ),
            gaps: [
                seconds("vllm:inter_token_latency_seconds", gap),
                seconds("vllm:time_per_output_token_seconds", gap),
            ],
            prompt: tokens("vllm:request_prompt_tokens", "Prompt tokens, by call."),
            generated: tokens("vllm:request_generation_tokens", "Output tokens, by call."),
            limit: tokens("vllm:request_params_max_tokens", "Output tokens that the client allowed, by call."),
        }
    }

    fn count(&self, record: &Record) {
        match record {
            Record::Step(step) => self.step(step),
            Record::Call(call) => self.call(call),
            Record::Sample(_) | Record::Relayed(_) | Record::Load(_) => {}
        }
    }

    fn step(&self, step: &StepRecord) {
        for token in step.tokens.iter().filter(|token| token.index > 0) {
            let gap = between(token.start_ns, step.end_ns);
            self.gaps.iter().for_each(|histogram| histogram.observe(gap));
        }
    }

    fn call(&self, record: &CallRecord) {
        self.prompt_tokens.add(record.call.input_tokens);
        for reason in record.finish.iter().flatten() {
            let [stop, length, abort] = &self.finished;
            match reason {
                Finish::Stop => stop.inc(),
                Finish::Length => length.inc(),
                Finish::Abort => abort.inc(),
            }
        }
        self.prompt.observe_count(record.call.input_tokens);
        self.generated.observe_count(record.output_tokens);
        if let Some(limit) = record.call.asked.max_tokens {
            self.limit.observe_count(u64::from(limit));
        }
        let arrival = record.call.arrival_ns;
        // Calls whose tokens are recorded are worth looking up.
        let time = |histogram: &Histogram, until| match record.call.sampled {
            true => histogram.observe_traced(between(arrival, until), record.call.trace_id),
            false => histogram.observe(between(arrival, until)),
        };
        if let Some(content) = record.content_ns {
            time(&self.first_token, content);
        }
        if record.outcome == Outcome::Complete {
            time(&self.whole, record.end_ns);
        }
        let Some(scheduled) = record.scheduled_ns else { return };
        time(&self.queue, scheduled);
        self.inference.observe(between(scheduled, record.end_ns));
        let Some(first) = record.first_ns else { return };
        self.prefill.observe(between(scheduled, first));
        self.decode.observe(between(first, record.end_ns));
        if let Some(more) =
            u32::try_from(record.output_tokens).ok().and_then(|tokens| tokens.checked_sub(1)).filter(|more| *more > 0)
        {
            self.per_token.observe(between(first, record.end_ns) / more);
        }
    }
}

/// Time from one instant to a later one, both in nanoseconds since 1970.
fn between(from_ns: i64, until_ns: i64) -> Duration {
    Duration::from_nanos(u64::try_from(until_ns - from_ns).unwrap_or(0))
}
