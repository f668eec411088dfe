//! Keys and names under which content and credentials are sent.

/// Keys whose values hold what a user wrote or a model answered.
const CONTENT: &[&str] = &[
    // OpenTelemetry GenAI, current and earlier, with what SDKs add to it
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.definitions",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
    "gen_ai.prompt",
    "gen_ai.completion",
    "gen_ai.content",
    "gen_ai.event.content",
    "gen_ai.message.content",
    "gen_ai.retrieval.documents",
    "gen_ai.retrieval.query.text",
    // OpenLLMetry, OpenInference
    "llm.prompt",
    "llm.prompts",
    "llm.completion",
    "llm.completions",
    "llm.input_messages",
    "llm.output_messages",
    "llm.prompt_template",
    "llm.tools",
    "llm.function_call",
    "llm.request.messages",
    "llm.response.content",
    "input.value",
    "output.value",
    "message.content",
    "message.contents",
    "message.tool_calls",
    "tool.parameters",
    "tool_call.function.arguments",
    "retrieval.documents",
    "document.content",
    "embedding.text",
    "embedding.embeddings",
    "reranker.query",
    "reranker.input_documents",
    "reranker.output_documents",
    "traceloop.entity.input",
    "traceloop.entity.output",
    "traceloop.prompt.template",
    "traceloop.prompt.template_variables",
    // Vercel AI SDK
    "ai.prompt",
    "ai.response.text",
    "ai.response.object",
    "ai.response.reasoning",
    "ai.response.toolCalls",
    "ai.result.text",
    "ai.result.object",
    "ai.result.toolCalls",
    "ai.toolCall.args",
    "ai.toolCall.result",
    "ai.value",
    "ai.values",
    // Langfuse, MLflow, Haystack, pydantic-ai
    "langfuse.observation.input",
    "langfuse.observation.output",
    "langfuse.trace.input",
    "langfuse.trace.output",
    "mlflow.spanInputs",
    "mlflow.spanOutputs",
    "haystack.component.input",
    "haystack.component.output",
    "pydantic_ai.all_messages",
    "all_messages_events",
    "final_result",
    "tool_arguments",
    "tool_response",
    "request_data",
    "response_data",
];

/// The keys of content, for the documentation.
pub fn content() -> &'static [&'static str] {
    CONTENT
}

/// Parts of a key that name a credential.
const CREDENTIAL: &[&str] = &[
    "api_key",
    "api-key",
    "apikey",
    "authorization",
    "password",
    "passwd",
    "secret",
    "credential",
    "cookie",
    "access_token",
    "refresh_token",
    "id_token",
    "session_token",
    "security-token",
    "private_key",
];

/// Endings under which a credential's fingerprint, alias or count is sent; these are no credential.
const HARMLESS: &[&str] = &["hash", "alias", "name", "id", "hashed"];

/// Events whose body is a message of a conversation.
const CONTENT_EVENTS: &[&str] = &[
    "gen_ai.system.message",
    "gen_ai.user.message",
    "gen_ai.assistant.message",
    "gen_ai.tool.message",
    "gen_ai.choice",
    "gen_ai.evaluation.result",
    "gen_ai.client.inference.operation.details",
];

/// What the names of further such events begin with: `gen_ai.content.prompt`, `gen_ai.content.completion`.
const CONTENT_EVENTS_UNDER: &str = "gen_ai.content.";

/// Attributes of such an event that hold the message itself.
const MESSAGE_PARTS: &[&str] = &[
    "content",
    "message",
    "messages",
    "body",
    "text",
    "prompt",
    "completion",
    "tool_calls",
    "arguments",
    "result",
    "reasoning_content",
    "explanation",
];

/// Whether `listed` is `key` or lies over it.
pub(super) fn covers(listed: &str, key: &str) -> bool {
    key.strip_prefix(listed).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

pub(super) fn is_content(key: &str) -> bool {
    CONTENT.iter().any(|listed| covers(listed, key))
}

pub(super) fn is_credential(key: &str) -> bool {
    let Some(last) = key.rsplit(['.', '_']).next() else { return false };
    !HARMLESS.contains(&last) && CREDENTIAL.iter().any(|part| contains_ignoring_case(key, part))
}

pub(super) fn is_content_event(event: &str) -> bool {
    CONTENT_EVENTS.contains(&event) || event.starts_with(CONTENT_EVENTS_UNDER)
}

pub(super) fn is_message_part(key: &str) -> bool {
    MESSAGE_PARTS.iter().any(|part| covers(part, key))
}

fn contains_ignoring_case(text: &str, part: &str) -> bool {
    text.as_bytes().windows(part.len()).any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
}
