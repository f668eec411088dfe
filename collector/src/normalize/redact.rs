//! What is never stored: prompts, completions and credentials, unless an operator says otherwise.

/// Keys whose values hold what a user wrote or a model answered.
const CONTENT: &[&str] = &[
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.definitions",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
    "gen_ai.prompt",
    "gen_ai.completion",
    "gen_ai.retrieval.documents",
    "gen_ai.retrieval.query.text",
    "llm.prompts",
    "llm.completions",
    "llm.input_messages",
    "llm.output_messages",
    "llm.prompt_template",
    "input.value",
    "output.value",
    "retrieval.documents",
    "ai.prompt",
    "ai.response.text",
    "ai.response.object",
    "ai.response.toolCalls",
    "ai.toolCall.args",
    "ai.toolCall.result",
    "traceloop.entity.input",
    "traceloop.entity.output",
    "langfuse.observation.input",
    "langfuse.observation.output",
    "langfuse.trace.input",
    "langfuse.trace.output",
];

/// The keys of content, for the documentation.
pub fn content() -> &'static [&'static str] {
    CONTENT
}

/// Parts of a key that name a credential.
const CREDENTIAL: &[&str] = &["api_key", "api-key", "apikey", "authorization", "password", "secret", "cookie"];

/// Endings under which a credential's fingerprint, alias or count is sent; these are no credential.
const HARMLESS: &[&str] = &["hash", "alias", "name", "id", "hashed"];

/// Log events whose body is a message of a conversation.
const CONTENT_EVENTS: &[&str] = &[
    "gen_ai.system.message",
    "gen_ai.user.message",
    "gen_ai.assistant.message",
    "gen_ai.tool.message",
    "gen_ai.choice",
    "gen_ai.client.inference.operation.details",
];

/// Decides which attributes are dropped before any table.
#[derive(Clone, Debug, Default)]
pub struct Redaction {
    keep_content: bool,
    extra: Vec<String>,
}

impl Redaction {
    /// Drops credentials, the keys in `extra` and, unless `keep_content`, what users wrote and models answered.
    pub fn new(keep_content: bool, extra: Vec<String>) -> Self {
        Self { keep_content, extra }
    }

    /// Whether an attribute of that key is dropped. A listed key covers what lies under it: `gen_ai.prompt.0.content`.
    pub fn drops(&self, key: &str) -> bool {
        self.extra.iter().any(|listed| covers(listed, key))
            || (!self.keep_content && CONTENT.iter().any(|listed| covers(listed, key)))
            || credential(key)
    }

    /// Whether the body of a log record with that event name is dropped.
    pub fn drops_body(&self, event: &str) -> bool {
        !self.keep_content && CONTENT_EVENTS.contains(&event)
    }
}

fn covers(listed: &str, key: &str) -> bool {
    key.strip_prefix(listed).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn credential(key: &str) -> bool {
    let Some(last) = key.rsplit(['.', '_']).next() else { return false };
    if HARMLESS.contains(&last) {
        return false;
    }
    CREDENTIAL.iter().any(|part| contains_ignoring_case(key, part))
}

fn contains_ignoring_case(text: &str, part: &str) -> bool {
    text.as_bytes().windows(part.len()).any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a user wrote never reaches a table; what it cost does.
    #[test]
    fn content_and_credentials_are_dropped_and_counts_kept() {
        let redaction = Redaction::new(false, vec!["acme.note".into()]);
        for key in [
            "gen_ai.prompt",
            "gen_ai.prompt.0.content",
            "gen_ai.input.messages",
            "http.request.header.authorization",
            "litellm.api_key",
            "X-API-Key",
            "acme.note",
        ] {
            assert!(redaction.drops(key), "{key}");
        }
        for key in [
            "gen_ai.usage.prompt_tokens",
            "llm.token_count.prompt",
            "gen_ai.request.max_tokens",
            "litellm.api_key.hash",
            "http.route",
        ] {
            assert!(!redaction.drops(key), "{key}");
        }
    }

    /// An operator who asks for content gets it, but never credentials.
    #[test]
    fn content_can_be_kept_but_credentials_cannot() {
        let redaction = Redaction::new(true, Vec::new());
        assert!(!redaction.drops("gen_ai.prompt"));
        assert!(!redaction.drops_body("gen_ai.user.message"));
        assert!(redaction.drops("db.password"));
    }
}
