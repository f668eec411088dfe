//! Answers of the paths that generate beside the ones whose every field is known: OpenAI's responses, Anthropic's messages, and what
//! SGLang, llama.cpp and Ollama have of their own. What such answers share is read: texts, counts, names, an error.

use serde_json::Value;

/// One frame, or a whole answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Loose {
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) input_tokens: Option<u64>,
    pub(super) cached_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    /// Output tokens so far, of engines that say so with every chunk.
    pub(super) so_far: Option<u64>,
    /// Length of the text that it brings.
    pub(super) text_bytes: usize,
    /// Whether it ends the answer.
    pub(super) is_last: bool,
    pub(super) error: Option<Value>,
}

/// Where counts lie.
const USAGES: [&str; 4] = ["/response/usage", "/message/usage", "/usage", "/meta_info"];
/// Where text lies: SGLang's and Ollama's, llama.cpp's, that of responses, and those of messages.
const TEXTS: [&str; 7] =
    ["/text", "/content", "/response", "/delta", "/delta/text", "/delta/thinking", "/delta/partial_json"];
/// Events after which nothing comes.
const LAST: [&str; 4] = ["message_stop", "response.completed", "response.failed", "response.incomplete"];

impl Loose {
    /// Reads an object; `None` if it is none.
    pub(super) fn read(data: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(data).ok()?;
        let text = |paths: &[&str]| paths.iter().find_map(|path| value.pointer(path)?.as_str()).map(str::to_owned);
        let number = |paths: &[&str]| paths.iter().find_map(|path| value.pointer(path)?.as_u64());
        let texts = TEXTS.iter().filter_map(|path| value.pointer(path)?.as_str());
        let kind = value.get("type").and_then(Value::as_str);
        let ends = |name: &str| value.get(name).and_then(Value::as_bool) == Some(true);
        let mut loose = Self {
            id: text(&["/id", "/response/id", "/message/id", "/meta_info/id"]),
            model: text(&["/model", "/response/model", "/message/model"]),
            input_tokens: number(&["/tokens_evaluated", "/prompt_eval_count"]),
            cached_tokens: None,
            output_tokens: number(&["/tokens_predicted", "/eval_count"]),
            so_far: number(&["/meta_info/completion_tokens", "/tokens_predicted"]),
            text_bytes: texts.map(str::len).sum(),
            is_last: kind.is_some_and(|kind| LAST.contains(&kind)) || ends("stop") || ends("done"),
            error: ["/error", "/response/error"].iter().find_map(|path| value.pointer(path)).cloned(),
        };
        loose.error = loose.error.filter(|error| !error.is_null());
        if let Some(usage) = USAGES.iter().find_map(|path| value.pointer(path)).filter(|usage| usage.is_object()) {
            loose.count(usage);
        }
        value.is_object().then_some(loose)
    }

    /// Takes what an object with counts says. Anthropic's count of the input leaves out what a cache was asked for or given.
    fn count(&mut self, usage: &Value) {
        let number = |path: &str| usage.pointer(path).and_then(Value::as_u64);
        let read = number("/cache_read_input_tokens");
        let beside = read.unwrap_or(0) + number("/cache_creation_input_tokens").unwrap_or(0);
        let input = number("/input_tokens").or(number("/prompt_tokens"));
        self.input_tokens = input.map(|input| input + beside).or(self.input_tokens);
        self.cached_tokens = read
            .or(number("/input_tokens_details/cached_tokens"))
            .or(number("/prompt_tokens_details/cached_tokens"))
            .or(number("/cached_tokens"));
        self.output_tokens = number("/output_tokens").or(number("/completion_tokens")).or(self.output_tokens);
    }
}
