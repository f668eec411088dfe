//! Credentials by their look, wherever in a text they stand.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

use super::BLOT;

/// Credentials that can be told by their form. Each begins with a literal, so that a text without one is passed over at the
/// speed of a substring search.
const CREDENTIALS: &[&str] = &[
    // OpenAI, Anthropic, OpenRouter, LiteLLM, DeepSeek
    r"\bsk-[A-Za-z0-9_-]{16,}",
    // Google, Hugging Face, NVIDIA, Groq, Replicate, Perplexity, xAI
    r"\bAIza[0-9A-Za-z_-]{30,}",
    r"\bhf_[A-Za-z0-9]{20,}",
    r"\bnvapi-[A-Za-z0-9_-]{20,}",
    r"\bgsk_[A-Za-z0-9]{20,}",
    r"\br8_[A-Za-z0-9]{30,}",
    r"\bpplx-[A-Za-z0-9]{20,}",
    r"\bxai-[A-Za-z0-9]{20,}",
    // AWS access key ids, GitHub, Slack
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    r"\bgh[pousr]_[A-Za-z0-9]{30,}",
    r"\bgithub_pat_[A-Za-z0-9_]{22,}",
    r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    // Our own
    r"\btw_[0-9a-f]{64}\b",
    // JSON Web Tokens, authorization headers, private keys, URLs with a password
    r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    r"\b(?:Bearer|bearer|BEARER|Basic|basic) [A-Za-z0-9._~+/=-]{16,}",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
    r"://[^/\s:@]{1,256}:[^/\s:@]{1,256}@",
    // Assignments
    r#"\b(?:api[_-]?key|API[_-]?KEY|apiKey|password|PASSWORD|secret[_-]?key|SECRET[_-]?(?:ACCESS[_-]?)?KEY|client_secret)["']?\s{0,4}[:=]\s{0,4}["']?[^\s"',;&}]{8,}"#,
];

/// No pattern matches a shorter text.
const SHORTEST: usize = 12;
/// Memory of the compiled patterns, bytes.
const SIZE_MAX: usize = 16 << 20;

/// Patterns of what is blotted out.
#[derive(Clone, Debug)]
pub struct Patterns {
    /// All in one, so that a text is read once; `None` only if the built-in ones did not compile, which a test excludes.
    all: Option<Regex>,
    /// An operator's pattern may be shorter than ours.
    shortest: usize,
}

impl Patterns {
    /// The built-in patterns and an operator's.
    ///
    /// # Errors
    /// Which pattern is wrong, and why.
    pub fn new(further: &[String]) -> Result<Self, String> {
        for pattern in further {
            let compiled =
                compile(pattern).map_err(|error| format!("`{pattern}` is no regular expression: {error}"))?;
            if compiled.is_match("") {
                return Err(format!("`{pattern}` matches the empty text, and so everything"));
            }
        }
        if further.is_empty() {
            return Ok(Self::default());
        }
        let all = together(further).map_err(|error| format!("the patterns are too large together: {error}"))?;
        Ok(Self { all: Some(all), shortest: 1 })
    }

    /// The text with everything blotted out that a pattern matches.
    pub(super) fn blot<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.all {
            Some(all) if text.len() >= self.shortest => all.replace_all(text, BLOT),
            _ => Cow::Borrowed(text),
        }
    }
}

/// The built-in patterns, compiled once.
static BUILT_IN: LazyLock<Option<Regex>> = LazyLock::new(|| together(&[]).ok());

impl Default for Patterns {
    fn default() -> Self {
        Self { all: BUILT_IN.clone(), shortest: SHORTEST }
    }
}

/// The built-in patterns and further ones in one.
fn together(further: &[String]) -> Result<Regex, regex::Error> {
    let patterns = CREDENTIALS.iter().copied().chain(further.iter().map(String::as_str));
    let parts: Vec<String> = patterns.map(|pattern| format!("(?:{pattern})")).collect();
    compile(&parts.join("|"))
}

fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(SIZE_MAX).build()
}
