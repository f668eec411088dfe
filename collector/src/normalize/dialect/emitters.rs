//! Everybody whose calls or gauges come in, and by which way; for `docs/dialects.md`.

use super::{
    Dialect, dynamo, genai, langfuse, litellm, openinference, openlit, openllmetry, ours, sglang, tensorrt_llm, tgi,
    triton, vercel, vllm,
};

/// An emitter.
pub struct Emitter {
    /// Its name and the versions whose source was read.
    pub name: &'static str,
    /// The dialect of its spans, if it sends any.
    pub spans: Option<&'static Dialect>,
    /// How its calls come in where it sends no spans.
    pub otherwise: &'static str,
    /// Prefixes of the metrics it exposes for a scrape.
    pub scrape: &'static str,
    /// What one must know to read its calls.
    pub note: &'static str,
}

/// Emitters, engines first.
pub const EMITTERS: &[Emitter] = &[
    spans("Tokenwatt's nodes and gateways", &ours::DIALECT, "", "device time per call"),
    spans(
        "vLLM V1, 0.10 to 0.33",
        &vllm::V1,
        "`vllm:`",
        "no model on the span: configured, or learned from the replica's metrics; an aborted call has no span",
    ),
    spans("vLLM V0, to 0.9", &vllm::V0, "`vllm:`", "prefill and decode are not told apart"),
    spans(
        "SGLang 0.5",
        &sglang::DIALECT,
        "`sglang:`",
        "prefill includes the queue; of separate prefill and decode servers the decoding one counts",
    ),
    spans(
        "TensorRT-LLM serve",
        &tensorrt_llm::DIALECT,
        "`trtllm_`",
        "no model on the span; two clocks, so a TTFT can be negative: then it is 0 and flagged",
    ),
    spans(
        "TGI 3.3",
        &tgi::DIALECT,
        "`tgi_`",
        "output tokens follow from its time of inference and time per token; input tokens only in response headers",
    ),
    spans(
        "Triton 2.7x",
        &triton::DIALECT,
        "`nv_`",
        "one request in 1,000 is traced unless configured; TTFT only of models that answer more than once, and with the span around the call in the same body",
    ),
    spans(
        "Dynamo 1.6, front end",
        &dynamo::DIALECT,
        "`dynamo_`, and its engines'",
        "a router; calls that failed before the first token carry no sign and stay spans",
    ),
    none("LMDeploy", "the client's or gateway's spans", "`lmdeploy:`", "no spans"),
    none(
        "llama.cpp server",
        "the client's or gateway's spans",
        "`llamacpp:`",
        "no spans; timings only in its responses",
    ),
    none(
        "Text Generation WebUI",
        "a line of its log, `Output generated in ...`",
        "",
        "no first token, no model; the ids are digests of the record",
    ),
    spans(
        "LiteLLM proxy 1.110",
        &litellm::DIALECT,
        "`litellm_`",
        "its `gen_ai.server.*` metrics are measured in the gateway; an answer from its own cache is a call too",
    ),
    spans(
        "OpenLLMetry, also under LangChain and LlamaIndex",
        &openllmetry::DIALECT,
        "",
        "a streamed span can end at its first chunk, without tokens",
    ),
    spans("OpenLIT", &openlit::DIALECT, "", "what it calls a server's TTFT is measured in the client"),
    spans("OpenInference, also under LangChain and LlamaIndex", &openinference::DIALECT, "", "TTFT from an event"),
    spans(
        "Langfuse, also LangChain's callback",
        &langfuse::DIALECT,
        "",
        "cached and reasoning tokens are beside input and output; they are added if the total says so",
    ),
    spans("Vercel AI SDK", &vercel::DIALECT, "", "outer spans add up the calls inside them"),
    spans("GenAI conventions since 1.37", &genai::CURRENT, "", "any client, gateway or engine that follows them"),
    spans("GenAI conventions before 1.37", &genai::OLD, "", "a model and a usage, and no operation"),
];

const fn spans(name: &'static str, dialect: &'static Dialect, scrape: &'static str, note: &'static str) -> Emitter {
    Emitter { name, spans: Some(dialect), otherwise: "", scrape, note }
}

const fn none(name: &'static str, otherwise: &'static str, scrape: &'static str, note: &'static str) -> Emitter {
    Emitter { name, spans: None, otherwise, scrape, note }
}
