//! OpenLLMetry (Traceloop), also under LangChain and LlamaIndex: spans of the old conventions, with names of its own for the
//! rest. Its workflows, tasks, agents and tools contain calls.

use super::{Dialect, Verdict, call_if};

pub(super) const DIALECT: Dialect = Dialect {
    gives: "request_id model operation stream input_tokens cached_input_tokens output_tokens \
        reasoning_tokens e2e_s finish_reason",
    ..Dialect::new(
        "openllmetry",
        "`llm.request.type` that names one call of a model, no `traceloop.span.kind`",
        |sight| {
            if sight.has("traceloop.span.kind") {
                return Verdict::NoCall;
            }
            call_if(sight.text("llm.request.type").is_some_and(|kind| CALLS.contains(&kind)))
        },
    )
};

const CALLS: &[&str] = &["chat", "completion", "embedding"];
