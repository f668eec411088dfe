//! Calls that went through a proxy, in its own metrics: what a proxy knows of them, under the names that vLLM's dashboards know.

use std::collections::HashMap;

use service::metrics::{Counter, Histogram, Registry};
use telemetry::names;

use super::{between, labels_of};
use crate::proxy::{Asked, End, Relayed, Turns};

/// Models that are told apart; calls of further ones count as those of none. Whoever calls may name any.
const MODELS_MAX: usize = 64;

/// Counts proxied calls that are over, by the model that answered. Lives on the recorder's thread.
pub(crate) struct RelayedCalls {
    registry: Registry,
    engine: &'static str,
    turns: Turns,
    by_model: HashMap<String, OfModel>,
}

/// What is counted of the calls of one model.
struct OfModel {
    prompt_tokens: Counter,
    generated_tokens: Counter,
    first_token: Histogram,
    whole: Histogram,
    queue: Histogram,
    decode: Histogram,
    per_token: Histogram,
    prompt: Histogram,
    generated: Histogram,
    limit: Histogram,
}

impl RelayedCalls {
    /// Nothing counted yet. `model` is the one that the settings name; without it the first that answers has the gauges.
    pub(crate) fn new(registry: &Registry, engine: &'static str, model: Option<&str>, turns: &Turns) -> Self {
        let mut calls = Self { registry: registry.clone(), engine, turns: turns.clone(), by_model: HashMap::new() };
        if let Some(model) = model {
            calls.of(model);
        }
        calls
    }

    /// Takes note of a call's end; of one that the engine did not answer nobody knows more than that.
    pub(super) fn count(&mut self, relayed: &Relayed) {
        let Some(end) = &relayed.end else { return };
        let model = end.said.model.as_deref().or(relayed.asked.model.as_deref()).unwrap_or_default().to_owned();
        let (registry, engine) = (self.registry.clone(), self.engine);
        let (model, counted) = self.of(&model);
        counted.call(&relayed.asked, end);
        for reason in reasons(end) {
            let labels = [&labels_of(&model, engine)[..], &[("finished_reason", reason.to_owned())]].concat();
            registry.counter("vllm:request_success_total", "Choices that ended, by reason.", &labels).inc();
        }
    }

    fn of(&mut self, model: &str) -> (String, &OfModel) {
        let is_known = self.by_model.contains_key(model);
        let model = if is_known || self.by_model.len() < MODELS_MAX { model } else { "" };
        if self.by_model.is_empty() {
            gauges(&self.registry, &labels_of(model, self.engine), &self.turns);
        }
        let counted = self.by_model.entry(model.to_owned());
        let counted = counted.or_insert_with(|| OfModel::new(&self.registry, &labels_of(model, self.engine)));
        (model.to_owned(), counted)
    }
}

/// The calls that the engine has from here, and those that wait here, whichever model they ask for.
fn gauges(registry: &Registry, labels: &[(&str, String)], turns: &Turns) {
    let observe = |name: &str, help: &str, read: fn(&Turns) -> u32| {
        let turns = turns.clone();
        registry.observe(name, help, labels, move || Some(f64::from(read(&turns))));
    };
    observe(names::ENGINE_RUNNING, "Calls that the engine has.", Turns::running);
    observe(names::ENGINE_WAITING, "Calls that wait for their turn.", Turns::waiting);
}

/// Why the choices of a call ended, in vLLM's words; `unknown` where a whole answer does not say it.
fn reasons(end: &End) -> Vec<&'static str> {
    if end.error.is_some() {
        return vec!["abort"];
    }
    let said = end.said.finish_reasons.iter().map(|reason| match reason.as_str() {
        "length" | "max_tokens" => "length",
        "abort" | "cancelled" => "abort",
        _ => "stop",
    });
    let said: Vec<_> = said.collect();
    if said.is_empty() { vec!["unknown"] } else { said }
}

impl OfModel {
    fn new(registry: &Registry, labels: &[(&str, String)]) -> Self {
        let seconds = |name: &str, help: &str| registry.histogram(name, help, labels);
        let tokens = |name: &str, help: &str| registry.histogram_of_tokens(name, help, labels);
        let total = |name: &str, help: &str| registry.counter(name, help, labels);
        Self {
            prompt_tokens: total("vllm:prompt_tokens_total", "Prompt tokens of calls that are over."),
            generated_tokens: total("vllm:generation_tokens_total", "Output tokens of calls that are over."),
            first_token: seconds("vllm:time_to_first_token_seconds", "Arrival to first content."),
            whole: seconds("vllm:e2e_request_latency_seconds", "Arrival to the end of the answer."),
            queue: seconds("vllm:request_queue_time_seconds", "Arrival to its turn, where calls wait for one."),
            decode: seconds("vllm:request_decode_time_seconds", "First content to the end of the answer."),
            per_token: seconds(
                "vllm:request_time_per_output_token_seconds",
                "Mean time per token after the first, by call.",
            ),
            prompt: tokens("vllm:request_prompt_tokens", "Prompt tokens, by call."),
            generated: tokens("vllm:request_generation_tokens", "Output tokens, by call."),
            limit: tokens("vllm:request_params_max_tokens", "Output tokens that the client allowed, by call."),
        }
    }

    /// What is unknown of a call counts nowhere.
    fn call(&self, asked: &Asked, end: &End) {
        let said = &end.said;
        if let Some(tokens) = said.input_tokens {
            self.prompt_tokens.add(tokens);
            self.prompt.observe_count(tokens);
        }
        if let Some(tokens) = said.output_tokens {
            self.generated_tokens.add(tokens);
            self.generated.observe_count(tokens);
        }
        if let Some(limit) = asked.max_tokens.and_then(|limit| u64::try_from(limit).ok()) {
            self.limit.observe_count(limit);
        }
        let since_arrival = |histogram: &Histogram, until| match end.sampled {
            // Calls whose tokens are recorded are worth looking up.
            true => histogram.observe_traced(between(asked.arrival_ns, until), asked.trace_id),
            false => histogram.observe(between(asked.arrival_ns, until)),
        };
        if let Some(dispatched) = end.dispatched_ns {
            since_arrival(&self.queue, dispatched);
        }
        if let Some(first) = end.first_ns {
            since_arrival(&self.first_token, first);
        }
        if end.error.is_some() {
            return;
        }
        since_arrival(&self.whole, end.end_ns);
        let Some(first) = end.first_ns else { return };
        self.decode.observe(between(first, end.end_ns));
        let more = said.output_tokens.and_then(|tokens| u32::try_from(tokens).ok()?.checked_sub(1));
        if let Some(more) = more.filter(|more| *more > 0) {
            self.per_token.observe(between(first, end.end_ns) / more);
        }
    }
}
