//! Names on the wire, each spelled once. `docs/wire.md` is printed from the tables at the end.
//!
//! These are the names Tokenwatt's own emitters send; what other emitters call the same things is the collector's matter.

/// Declares constants and the table that documents them.
macro_rules! names {
    ($(#[$table_doc:meta])* $table:ident: $($name:ident = $value:literal, $unit:literal, $doc:literal;)+) => {
        $(#[doc = $doc] pub const $name: &str = $value;)+
        $(#[$table_doc])*
        pub const $table: &[Name] = &[$(Name { name: $value, unit: $unit, doc: $doc },)+];
    };
}

/// One documented name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// As it is sent.
    pub name: &'static str,
    /// UCUM unit or value type.
    pub unit: &'static str,
    /// What it means.
    pub doc: &'static str,
}

names! {
    /// Resource attributes.
    RESOURCE:
    SERVICE_NAME = "service.name", "string", "name of the emitter";
    SERVICE_VERSION = "service.version", "string", "version of the emitter";
    SERVICE_INSTANCE_ID = "service.instance.id", "string", "one engine replica, one gateway";
    HOST_ID = "host.id", "string", "instance id, which joins prices and bills";
    HOST_TYPE = "host.type", "string", "instance type";
    CLOUD_PROVIDER = "cloud.provider", "string", "cloud provider";
    CLOUD_REGION = "cloud.region", "string", "region in which the model runs";
    CLOUD_ZONE = "cloud.availability_zone", "string", "availability zone";
    CLOUD_ACCOUNT = "cloud.account.id", "string", "account that pays";
    K8S_CLUSTER = "k8s.cluster.name", "string", "Kubernetes cluster";
    K8S_NAMESPACE = "k8s.namespace.name", "string", "Kubernetes namespace";
    ENVIRONMENT = "deployment.environment.name", "string", "deployment environment";
    POOL = "tokenwatt.pool", "string", "node pool";
    CAPACITY_TYPE = "tokenwatt.capacity_type", "string", "on_demand, spot, savings_plan, reserved, capacity_block or unknown";
    CHIPS = "tokenwatt.chips", "int", "accelerator chips that serve the replica";
}

names! {
    /// Spans.
    SPANS:
    SPAN_REQUEST = "llm_request", "span", "one inference call; kind SERVER at the engine, CLIENT at a gateway";
    SPAN_TOKEN = "token", "span or span event", "one token or chunk; INTERNAL, parent is the request span, start is when the token before it left, end when it left";
    SPAN_QUEUE = "queue", "span", "a call from its arrival to its first step, where the node records phases; INTERNAL, parent is the request span";
    SPAN_PREFILL = "prefill", "span", "a call from its first step to its first token, where the node records phases; INTERNAL, parent is the request span";
    SPAN_DECODE = "decode", "span", "a call from its first token to its end, where the node records phases; INTERNAL, parent is the request span";
    SPAN_STEP = "step", "span", "one step of an engine, where the node records steps; INTERNAL, links to the calls with work in it";
    SPAN_RETRIEVAL = "retrieval", "span", "what a retrieval-augmented application fetches before the call";
}

names! {
    /// Attributes of a request span.
    REQUEST:
    OPERATION = "gen_ai.operation.name", "string", "chat, text_completion, ...";
    PROVIDER = "gen_ai.provider.name", "string", "who serves the model";
    REQUEST_MODEL = "gen_ai.request.model", "string", "model asked for";
    RESPONSE_MODEL = "gen_ai.response.model", "string", "model that answered";
    REQUEST_ID = "gen_ai.request.id", "string", "the engine's id of the call";
    RESPONSE_ID = "gen_ai.response.id", "string", "the provider's id of the answer";
    REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens", "int", "token limit asked for";
    REQUEST_TEMPERATURE = "gen_ai.request.temperature", "double", "sampling temperature";
    REQUEST_TOP_P = "gen_ai.request.top_p", "double", "nucleus sampling";
    REQUEST_STREAM = "gen_ai.request.stream", "bool", "whether the answer is streamed";
    REQUEST_CHOICES = "gen_ai.request.choice.count", "int", "choices asked for";
    FINISH_REASONS = "gen_ai.response.finish_reasons", "string[]", "why generation ended, per choice";
    INPUT_TOKENS = "gen_ai.usage.input_tokens", "{token}", "prompt tokens, cached ones included";
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens", "{token}", "generated tokens, reasoning ones included";
    CACHED_INPUT_TOKENS = "gen_ai.usage.cache_read.input_tokens", "{token}", "prompt tokens read from a cache";
    REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens", "{token}", "reasoning tokens";
    LATENCY_TTFT = "gen_ai.latency.time_to_first_token", "s", "arrival to first token with content";
    LATENCY_E2E = "gen_ai.latency.e2e", "s", "arrival to last token";
    LATENCY_QUEUE = "gen_ai.latency.time_in_queue", "s", "waiting until first scheduled";
    LATENCY_PREFILL = "gen_ai.latency.time_in_model_prefill", "s", "first scheduled to first token";
    LATENCY_DECODE = "gen_ai.latency.time_in_model_decode", "s", "first token to last token";
    LATENCY_INFERENCE = "gen_ai.latency.time_in_model_inference", "s", "first scheduled to last token";
    TENANT = "tokenwatt.tenant", "string", "for whom the call is served";
    DEVICE_US_PREFILL = "tokenwatt.device_us.prefill", "us", "device time given to the call's prefill";
    DEVICE_US_DECODE = "tokenwatt.device_us.decode", "us", "device time given to the call's decode";
    TOKEN_SAMPLING = "tokenwatt.token_sampling", "1", "share of requests whose tokens are sent; whole requests, never single tokens";
    MEASURED_AT = "tokenwatt.measured_at", "string", "client, gateway or server, where kind and scope do not say it";
    TTFT_DEFINITION = "tokenwatt.ttft_definition", "string", "what the emitter calls its first token";
    ENGINE = "tokenwatt.engine", "string", "inference engine";
    ACCELERATOR = "tokenwatt.accelerator", "string", "accelerator model";
    QUANTIZATION = "tokenwatt.quantization", "string", "weight format";
    TENSOR_PARALLEL = "tokenwatt.tensor_parallel", "int", "tensor parallel degree";
    ITL_MAX = "tokenwatt.itl_max", "s", "longest gap between two tokens of the call";
    SIMULATED = "tokenwatt.simulated", "string", "how a simulated node was calibrated and how far it errs";
    ERROR_TYPE = "error.type", "string", "what failed";
    OUTPUT_TOKENS_SOURCE = "tokenwatt.output_tokens_source", "string", "usage: the node said so; chunks: content chunks counted at the gateway";
    GATEWAY_ATTEMPTS = "tokenwatt.gateway.attempts", "int", "nodes that the call was sent to";
}

names! {
    /// Attributes of a token span.
    TOKEN:
    TOKEN_INDEX = "tokenwatt.token.index", "int", "position in its choice, from 0; the KV length of its step is the prompt's tokens plus it, in calls of one prompt";
    TOKEN_CHOICE = "tokenwatt.token.choice", "int", "which choice, from 0";
    TOKEN_COUNT = "tokenwatt.token.count", "{token}", "tokens in the span, 1 if absent";
    TOKEN_BATCH = "tokenwatt.token.batch", "{request}", "requests in the step that made it";
    TOKEN_DEVICE_US = "tokenwatt.token.device_us", "us", "its share of the step's device time";
    TOKEN_STALL = "tokenwatt.token.stall", "string", "decode, prefill, preempted, host or network";
}

names! {
    /// Attributes of a step span.
    STEP:
    STEP_NUMBER = "tokenwatt.step.number", "int", "number of the step since the engine started";
    STEP_KIND = "tokenwatt.step.kind", "string", "prefill, decode or mixed; also on the count of steps";
    STEP_ACTIVE = "tokenwatt.step.active", "{request}", "sequences with work in it";
    STEP_COMPILED = "tokenwatt.step.compiled", "{request}", "sequences that the compiled graph computes, empty slots included";
    STEP_BUCKET = "tokenwatt.step.bucket", "{token}", "length that the compiled graph computes; the longest sequence where nothing is compiled";
    STEP_PADDING_TOKENS = "tokenwatt.step.padding_tokens", "{token}", "tokens computed for nobody";
    STEP_TOKENS = "tokenwatt.step.tokens", "{token}", "tokens computed for somebody: the budget used";
    STEP_BUDGET = "tokenwatt.step.budget", "{token}", "most tokens of a step, where the rules have a budget";
    STEP_PREFILL_TOKENS = "tokenwatt.step.prefill_tokens", "{token}", "prompt tokens computed, padding included";
    STEP_DECODE_SLOTS = "tokenwatt.step.decode_slots", "{request}", "slots that the decode graph computes, empty ones included";
    STEP_CONTEXT = "tokenwatt.step.context", "{token}", "context bucket of the decode graph; 0 without decoders";
    STEP_DEVICE_US = "tokenwatt.step.device_us", "us", "device time of the step";
    STEP_PADDING_US = "tokenwatt.step.padding_us", "us", "part of it that went to empty slots";
    STEP_BLOCKS = "tokenwatt.step.blocks", "{block}", "KV blocks of the pool; 0 without blocks";
    STEP_BLOCKS_FREE = "tokenwatt.step.blocks_free", "{block}", "KV blocks that nobody holds after the step";
    STEP_WAITING = "tokenwatt.step.waiting", "{request}", "sequences that wait after the step was put together";
    STEP_PREEMPTED = "tokenwatt.step.preempted", "{request}", "sequences whose KV memory was taken away for it";
    STEP_LOST_TOKENS = "tokenwatt.step.lost_tokens", "{token}", "computed tokens that these lost";
    STEP_SCHEDULE_NS = "tokenwatt.step.schedule_ns", "ns", "host time to decide what it holds";
    STEP_EXECUTE_NS = "tokenwatt.step.execute_ns", "ns", "host time in the engine, device included";
    STEP_WAIT_NS = "tokenwatt.step.wait_ns", "ns", "host time waiting for the end of a simulated step";
    STEP_DELIVER_NS = "tokenwatt.step.deliver_ns", "ns", "host time for text, records and handing out";
}

names! {
    /// Device metrics.
    DEVICE:
    HW_POWER = "hw.power", "W", "power drawn";
    HW_ENERGY = "hw.energy", "J", "energy, cumulative";
    HW_UTILIZATION = "hw.gpu.utilization", "1", "share of time in use, 0 to 1";
    HW_MEMORY_USAGE = "hw.gpu.memory.usage", "By", "device memory in use";
    HW_MEMORY_LIMIT = "hw.gpu.memory.limit", "By", "device memory there is";
    HW_TEMPERATURE = "hw.temperature", "Cel", "device temperature";
    ENGINE_RUNNING = "vllm:num_requests_running", "{request}", "requests in the batch";
    ENGINE_WAITING = "vllm:num_requests_waiting", "{request}", "requests queued";
    ENGINE_KV_USAGE = "vllm:kv_cache_usage_perc", "1", "share of the KV cache in use, 0 to 1";
    ENGINE_BUSY_US = "tokenwatt.engine.busy_us", "us", "device time given to requests, cumulative";
    ENGINE_PADDING_US = "tokenwatt.engine.padding_us", "us", "device time of compiled but empty slots, cumulative";
    ENGINE_STEPS = "tokenwatt.engine.steps", "{step}", "steps by `tokenwatt.step.kind`, cumulative";
    ENGINE_COMPUTED_TOKENS = "tokenwatt.engine.computed_tokens", "{token}", "tokens that steps computed for somebody, cumulative";
    ENGINE_PADDING_TOKENS = "tokenwatt.engine.padding_tokens", "{token}", "tokens that compiled steps computed for nobody, cumulative";
    ENGINE_LOST_TOKENS = "tokenwatt.engine.lost_tokens", "{token}", "computed tokens that preempted sequences lost, cumulative";
    ENGINE_HOST_US = "tokenwatt.engine.host_us", "us", "time of the step thread by `tokenwatt.host.part`, cumulative";
    ENGINE_BLOCKS = "tokenwatt.engine.blocks", "{block}", "KV blocks of the pool";
    ENGINE_BLOCKS_FREE = "tokenwatt.engine.blocks_free", "{block}", "KV blocks that nobody holds, cached ones included";
    ENGINE_PREEMPTIONS = "vllm:num_preemptions", "{request}", "sequences whose KV memory was taken away, cumulative";
    ENGINE_PREFIX_QUERIES = "vllm:prefix_cache_queries", "{token}", "prompt tokens looked up in the prefix cache, cumulative";
    ENGINE_PREFIX_HITS = "vllm:prefix_cache_hits", "{token}", "prompt tokens found in the prefix cache, cumulative";
}

names! {
    /// Attributes of device metrics.
    DEVICE_ATTRIBUTES:
    HW_ID = "hw.id", "string", "device id on its host";
    HW_TYPE = "hw.type", "string", "gpu for any accelerator, host or engine";
    HW_VENDOR = "hw.vendor", "string", "maker of the device";
    HW_MODEL = "hw.model", "string", "device model";
    ENERGY_METHOD = "tokenwatt.energy_method", "string", "energy_counter, integrated_power, percent_of_max, load_curve or tdp";
    BOUNDARY = "tokenwatt.boundary", "string", "chip, board, node, wall or facility";
    HOST_PART = "tokenwatt.host.part", "string", "schedule, execute, wait or deliver";
    UTILIZATION_KIND = "tokenwatt.utilization_kind", "string", "allocated, executing, tensor or useful";
    CONFIDENCE = "tokenwatt.confidence", "string", "measured, or assumed";
}

names! {
    /// HTTP headers between gateway and node.
    HEADERS:
    HEADER_TENANT = "x-tokenwatt-tenant", "string", "tenant, believed only with the fleet's secret";
    HEADER_FLEET_SECRET = "x-tokenwatt-fleet-secret", "string", "proves that the caller is a gateway of the fleet";
    HEADER_TIMEOUT = "x-tokenwatt-timeout-ms", "int", "milliseconds after which the caller has no use for the answer; the call ends then";
    HEADER_LOAD = "x-node-load", "running,waiting,kv,slots", "the node's load when it answered; empty is unknown";
}

/// Sections of `docs/wire.md`: a title and its names.
pub const SECTIONS: &[(&str, &[Name])] = &[
    ("Resource attributes", RESOURCE),
    ("Spans", SPANS),
    ("Attributes of a request", REQUEST),
    ("Attributes of a token", TOKEN),
    ("Attributes of a step", STEP),
    ("Device metrics", DEVICE),
    ("Attributes of device metrics", DEVICE_ATTRIBUTES),
    ("Headers between gateway and node", HEADERS),
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::SECTIONS;

    #[test]
    fn no_name_is_spelled_twice() {
        let mut seen = HashSet::new();
        for name in SECTIONS.iter().flat_map(|(_, names)| names.iter()) {
            assert!(seen.insert(name.name), "{} stands twice", name.name);
        }
    }
}
