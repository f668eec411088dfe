//! What engines write into their logs of what users wrote and models answered, when they are told to log requests.
//!
//! A line is told by words that only such lines have. From there on everything is blotted out, up to the last place at which the engine
//! goes on with figures of its own: what a user wrote may look like that place, and is blotted out with it.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::BLOT;

/// Words that such a line has, and what of it stays before what was said, as the first group, and after it, as the second, if there is one.
const LINES: &[(&str, &str)] = &[
    // vLLM, `--enable-log-requests`, once the default.
    ("Received request ", r"(?s)(Received request \S{1,256}: prompt: )(?:.*(, (?:sampling_)?params(?:_list)?: )|.*)"),
    (" details: prompt: ", r"(?s)(Request \S{1,256} details: prompt: )(?:.*(, prompt_token_ids: )|.*)"),
    // vLLM, `--enable-log-outputs`.
    (
        "Generated response ",
        r"(?s)(Generated response \S{1,256}(?: \(streaming \w{1,16}\))?: output: )(?:.*(, finish_reason: )|.*)",
    ),
    // Both, and SGLang: ids of tokens are text to whoever has the tokeniser.
    ("_token_ids: [", r"(_token_ids: )\[[0-9][0-9, ]*\]?()"),
    // SGLang, `--log-requests`.
    ("Receive", r"(?s)(\bReceive(?: OpenAI)?: obj=).*()"),
    ("Finish: obj=", r"(?s)(\bFinish: obj=)(?:.*('meta_info': \{'id': )|.*)"),
    ("\"request.", r#"(?s)("request\.(?:received|finished)".*?"obj": ).*()"#),
    // Text Generation Inference, at level debug, as text and as JSON.
    ("text_generation_router", r"(?s)(text_generation_router\S{0,64}: .{0,80}?\b(?:Input|Output): ).*()"),
    ("text_generation_router", r#"(?s)("message":"(?:Input|Output): ).*(","target":"text_generation_router)"#),
    // llama.cpp's server, `--verbose`.
    ("log_server_r", r"(?s)(log_server_r\w{0,16}: (?:request|response): +)[\[{].*()"),
    // Text Generation WebUI, `--verbose`.
    ("PROMPT=", r"(?s)(\bPROMPT=\r?\n).*()"),
];

/// The lines' patterns with their words, and all words in one, by which a text that is no such line is passed over at once.
struct Lines {
    words: Regex,
    lines: Vec<(&'static str, Regex)>,
}

/// Compiled once; a test holds that they do.
static COMPILED: LazyLock<Option<Lines>> = LazyLock::new(|| {
    let words: Vec<String> = LINES.iter().map(|(words, _)| regex::escape(words)).collect();
    let lines = LINES.iter().map(|(words, pattern)| Some((*words, Regex::new(pattern).ok()?)));
    Some(Lines { words: Regex::new(&words.join("|")).ok()?, lines: lines.collect::<Option<_>>()? })
});

/// The text without what users wrote and models answered, if it is such a line.
pub(super) fn blot(text: &str) -> Cow<'_, str> {
    let mut cleaned = Cow::Borrowed(text);
    let Some(Lines { lines, .. }) = COMPILED.as_ref().filter(|compiled| compiled.words.is_match(text)) else {
        return cleaned;
    };
    for (_, pattern) in lines.iter().filter(|(words, _)| text.contains(words)) {
        let replace = |found: &Captures<'_>| {
            let group = |at| found.get(at).map_or("", |group| group.as_str());
            format!("{}{BLOT}{}", group(1), group(2))
        };
        if let Cow::Owned(replaced) = pattern.replace_all(&cleaned, replace) {
            cleaned = Cow::Owned(replaced);
        }
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of each engine as it writes it, and what is stored of it. What a user wrote may hold what ends it.
    const FIXTURES: [(&str, &str, &str); 14] = [
        (
            "vLLM",
            "INFO 11-30 21:00:00 [logger.py:41] Received request chatcmpl-1: prompt: 'harbor, params: SamplingParams(n=1) harbor\\n', params: SamplingParams(n=1, max_tokens=9), prompt_token_ids: [1, 29871, 7], prompt_embeds shape: None, lora_request: None.",
            "INFO 11-30 21:00:00 [logger.py:41] Received request chatcmpl-1: prompt: [redacted], params: SamplingParams(n=1, max_tokens=9), prompt_token_ids: [redacted], prompt_embeds shape: None, lora_request: None.",
        ),
        (
            "vLLM 0.4",
            "Received request cmpl-2-0: prompt: \"harbor\", sampling_params: SamplingParams(n=1), prompt_token_ids: None, lora_request: None.",
            "Received request cmpl-2-0: prompt: [redacted], sampling_params: SamplingParams(n=1), prompt_token_ids: None, lora_request: None.",
        ),
        (
            "vLLM, beams",
            "Received request b: prompt: 'harbor', params_list: [], prompt_token_ids: [5",
            "Received request b: prompt: [redacted], params_list: [], prompt_token_ids: [redacted]",
        ),
        ("vLLM, cut off", "Received request b: prompt: 'the harbor is", "Received request b: prompt: [redacted]"),
        (
            "vLLM, debug",
            "Request chatcmpl-3 details: prompt: 'harbor', prompt_token_ids: [1, 2], prompt_embeds shape: None.",
            "Request chatcmpl-3 details: prompt: [redacted], prompt_token_ids: [redacted], prompt_embeds shape: None.",
        ),
        (
            "vLLM, outputs",
            "Generated response chatcmpl-4 (streaming complete): output: 'A harbor', output_token_ids: [3, 4], finish_reason: stop",
            "Generated response chatcmpl-4 (streaming complete): output: [redacted], finish_reason: stop",
        ),
        (
            "SGLang",
            "[2025-05-27 20:00:05 TP0] Receive: obj=GenerateReqInput(rid='r', text='harbor', input_ids=[1, 2], sampling_params={})",
            "[2025-05-27 20:00:05 TP0] Receive: obj=[redacted]",
        ),
        (
            "SGLang, OpenAI",
            "Receive OpenAI: obj=ChatCompletionRequest(messages=[{'role': 'user', 'content': 'harbor'}])",
            "Receive OpenAI: obj=[redacted]",
        ),
        (
            "SGLang, finished",
            "Finish: obj=GenerateReqInput(rid='r', text='harbor'), out={'text': ' a harbor', 'meta_info': {'id': 'r', 'prompt_tokens': 3}}",
            "Finish: obj=[redacted]'meta_info': {'id': 'r', 'prompt_tokens': 3}}",
        ),
        (
            "SGLang, JSON",
            r#"{"timestamp": "t", "event": "request.received", "rid": "r", "obj": {"text": "harbor"}}"#,
            r#"{"timestamp": "t", "event": "request.received", "rid": "r", "obj": [redacted]"#,
        ),
        (
            "TGI",
            "2025-01-01T00:00:00Z DEBUG text_generation_router::server: router/src/server.rs:185: Input: the harbor",
            "2025-01-01T00:00:00Z DEBUG text_generation_router::server: router/src/server.rs:185: Input: [redacted]",
        ),
        (
            "TGI, JSON",
            r#"{"level":"DEBUG","message":"Output: a harbor","target":"text_generation_router::server","line":3}"#,
            r#"{"level":"DEBUG","message":"Output: [redacted]","target":"text_generation_router::server","line":3}"#,
        ),
        (
            "llama.cpp",
            "srv  log_server_r: request:  {\"messages\":[{\"role\":\"user\",\"content\":\"harbor\"}]}",
            "srv  log_server_r: request:  [redacted]",
        ),
        (
            "Text Generation WebUI",
            "12:00:00 INFO     PROMPT=\n<s>the harbor\n",
            "12:00:00 INFO     PROMPT=\n[redacted]",
        ),
    ];

    #[test]
    fn every_pattern_compiles() {
        assert!(COMPILED.is_some());
    }

    /// What was said is gone from the lines of each engine, and the figures stay.
    #[test]
    fn lines_of_engines() {
        for (engine, line, stored) in FIXTURES {
            assert_eq!(blot(line), stored, "{engine}");
            assert_eq!(blot(stored), stored, "{engine}: what is stored may be sent again");
            assert!(!stored.contains("harbor"), "{engine}");
        }
    }

    /// Lines that tell of requests without what was said in them, and others that look alike, are stored to the letter.
    #[test]
    fn other_lines_are_not_touched() {
        for line in [
            "INFO Received request chatcmpl-1: params: SamplingParams(n=1), lora_request: None.",
            "Received request from 10.0.0.1: prompt payment",
            "srv  log_server_r: request: POST /v1/chat/completions 127.0.0.1 200",
            "Receive buffer is 4 MiB",
            "PROMPT=$",
            "Finish: all objects",
            "Output generated in 5.10 seconds (19.60 tokens/s, 100 tokens, context 41, seed 7)",
        ] {
            assert!(matches!(blot(line), Cow::Borrowed(_)), "{line}");
        }
    }
}
