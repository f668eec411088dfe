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
    // Where it would end is looked at first: that rules out nearly all of a list without comparing.
    let ends = key.len() == listed.len() || key.as_bytes().get(listed.len()) == Some(&b'.');
    ends && key.starts_with(listed)
}

pub(super) fn is_content(key: &str) -> bool {
    CONTENT.iter().any(|listed| covers(listed, key))
}

pub(super) fn is_credential(key: &str) -> bool {
    names_credential(key) && !key.rsplit(['.', '_']).next().is_some_and(|last| HARMLESS.contains(&last))
}

/// Whether a part of the key is one of [`CREDENTIAL`], in whatever case. This is asked for every attribute that is stored, so most
/// letters are passed over by one look at whether any part begins with them.
fn names_credential(key: &str) -> bool {
    let mut rest = key.as_bytes();
    while let [first, tail @ ..] = rest {
        if INITIALS & initial(*first) != 0 && begins_credential(first.to_ascii_lowercase(), rest) {
            return true;
        }
        rest = tail;
    }
    false
}

fn begins_credential(first: u8, rest: &[u8]) -> bool {
    let mut candidates = CREDENTIAL.iter().map(|part| part.as_bytes()).filter(|part| part.first() == Some(&first));
    candidates.any(|part| rest.get(..part.len()).is_some_and(|head| head.eq_ignore_ascii_case(part)))
}

/// The first letters of [`CREDENTIAL`], one bit each.
const INITIALS: u32 = {
    let mut letters = 0;
    let mut parts = CREDENTIAL;
    while let [part, rest @ ..] = parts {
        if let [first, ..] = part.as_bytes() {
            letters |= initial(*first);
        }
        parts = rest;
    }
    letters
};

/// A bit for a letter of either case; other characters share bits with letters.
const fn initial(byte: u8) -> u32 {
    1 << (byte & 0x1f)
}

pub(super) fn is_content_event(event: &str) -> bool {
    CONTENT_EVENTS.contains(&event) || event.starts_with(CONTENT_EVENTS_UNDER)
}

pub(super) fn is_message_part(key: &str) -> bool {
    MESSAGE_PARTS.iter().any(|part| covers(part, key))
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// The quick look finds what a look for each part in turn finds, in keys with parts of credentials, whole and broken.
    #[test]
    fn a_quick_look_finds_every_part_of_a_credential() {
        let mut random = StdRng::seed_from_u64(3);
        let mut found = 0;
        for _ in 0..20_000 {
            let part = CREDENTIAL[random.random_range(0..CREDENTIAL.len())];
            let mut key = format!("http.{part}.{}", ["x", "é", "A", ""][random.random_range(0..4)]).into_bytes();
            for byte in &mut key {
                match random.random_range(0..40) {
                    0 => *byte = b'_',
                    1..10 => *byte = byte.to_ascii_uppercase(),
                    _ => {}
                }
            }
            let key = String::from_utf8_lossy(&key).into_owned();
            let expected = CREDENTIAL.iter().any(|part| key.to_ascii_lowercase().contains(part));
            assert_eq!(names_credential(&key), expected, "{key}");
            found += usize::from(expected);
        }
        assert!((5_000..18_000).contains(&found), "{found}");
    }

    /// A listed key covers itself and what lies under it, and nothing that only begins like it.
    #[test]
    fn a_key_covers_what_lies_under_it() {
        for (key, covered) in
            [("a.b", true), ("a.b.c", true), ("a.b.", true), ("a.bc", false), ("a", false), ("", false)]
        {
            assert_eq!(covers("a.b", key), covered, "{key}");
        }
    }
}
