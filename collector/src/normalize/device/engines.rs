//! Engines: requests in the batch, requests queued, share of the KV cache in use.
//!
//! Routers repeat their engines' gauges under the same names. An engine's own points name the model it serves.

use telemetry::names;

use super::source::{Family, Figure, Kind, When, source, when};

/// Counters that only our own nodes have.
pub(super) const OURS: Family = Family {
    device: &[names::HW_ID],
    ..Family::new(
        "Tokenwatt",
        Kind::Engine,
        &[source(names::ENGINE_BUSY_US, Figure::BusyUs), source(names::ENGINE_PADDING_US, Figure::PaddingUs)],
    )
};

/// vLLM V0 and V1, also under Triton; our own nodes use the same names. The production stack's router exports them per
/// `server` and without a model.
pub(super) const VLLM: Family = Family {
    device: &[names::HW_ID, "engine"],
    needs: &["model_name", names::REQUEST_MODEL, "model"],
    lacks: Some("server"),
    ..Family::new(
        "vLLM",
        Kind::Engine,
        &[
            source(names::ENGINE_RUNNING, Figure::Running),
            source(names::ENGINE_WAITING, Figure::Waiting),
            source(names::ENGINE_KV_USAGE, Figure::KvUsage),
            source("vllm:gpu_cache_usage_perc", Figure::KvUsage),
        ],
    )
};

pub(super) const SGLANG: Family = Family {
    device: &["dp_rank"],
    ..Family::new(
        "SGLang",
        Kind::Engine,
        &[
            source("sglang:num_running_reqs", Figure::Running),
            source("sglang:num_queue_reqs", Figure::Waiting),
            source("sglang:token_usage", Figure::KvUsage),
        ],
    )
};

/// TGI tells no share of a KV cache: what its batches may grow to is not what they use.
pub(super) const TGI: Family = Family::new(
    "TGI",
    Kind::Engine,
    &[source("tgi_batch_current_size", Figure::Running), source("tgi_queue_size", Figure::Waiting)],
);

pub(super) const TENSORRT_LLM: Family = Family::new(
    "TensorRT-LLM",
    Kind::Engine,
    &[
        source("trtllm_num_requests_running", Figure::Running),
        source("trtllm_num_requests_waiting", Figure::Waiting),
        source("trtllm_kv_cache_utilization", Figure::KvUsage),
    ],
);

pub(super) const TRITON_TENSORRT_LLM: Family = Family::new(
    "Triton, TensorRT-LLM backend",
    Kind::Engine,
    &[
        when("nv_trt_llm_request_metrics", Figure::Running, When::Is("request_type", "scheduled")),
        when("nv_trt_llm_request_metrics", Figure::Waiting, When::Is("request_type", "waiting")),
        when("nv_trt_llm_kv_cache_block_metrics", Figure::KvUsage, When::Is("kv_cache_block_type", "fraction")),
    ],
);

/// Triton counts what waits per model, in an ensemble the same request more than once.
pub(super) const TRITON: Family = Family {
    is_second_hand: true,
    ..Family::new("Triton", Kind::Engine, &[source("nv_inference_pending_request_count", Figure::Waiting)])
};

/// A Dynamo worker passes its engine's metrics on; its own count for the engine only where it does not. What the front end
/// has in flight is the sum of its workers, and stays a metric.
pub(super) const DYNAMO: Family = Family {
    device: &["dp_rank"],
    is_second_hand: true,
    ..Family::new(
        "Dynamo",
        Kind::Engine,
        &[
            when("dynamo_component_inflight_requests", Figure::Running, When::Is("dynamo_endpoint", "generate")),
            source("dynamo_work_handler_queue_depth", Figure::Waiting),
        ],
    )
};

/// llama.cpp's server; the last name was removed from it and is still in use.
pub(super) const LLAMA_CPP: Family = Family::new(
    "llama.cpp",
    Kind::Engine,
    &[
        source("llamacpp:requests_processing", Figure::Running),
        source("llamacpp:requests_deferred", Figure::Waiting),
        source("llamacpp:kv_cache_usage_ratio", Figure::KvUsage),
    ],
);

pub(super) const LMDEPLOY: Family = Family::new(
    "LMDeploy",
    Kind::Engine,
    &[
        source("lmdeploy:num_requests_running", Figure::Running),
        source("lmdeploy:num_requests_waiting", Figure::Waiting),
        source("lmdeploy:gpu_cache_usage_perc", Figure::KvUsage),
    ],
);
