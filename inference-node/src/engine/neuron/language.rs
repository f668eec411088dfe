//! Text to tokens and back, from the files that every published model has: `tokenizer.json` and `tokenizer_config.json`.

use std::path::Path;
use std::sync::Arc;

use minijinja::{Environment, Error, ErrorKind, context};
use serde::Deserialize;
use serde_json::{Value, json};
use tokenizers::Tokenizer;

use crate::engine::least::Least;
use crate::engine::plain::Plain;
use crate::engine::{ChatMessage, EngineError, Text, TokenDecoder};

/// The language of one model.
pub(super) struct Language {
    tokenizer: Arc<Tokenizer>,
    plain: Plain,
    /// What a text's length says of its tokens, where it says anything.
    least: Option<Least>,
    tokens: usize,
    ends: Vec<u32>,
    templates: Option<Environment<'static>>,
    begin: String,
    end: String,
}

/// The part of `tokenizer_config.json` that is used.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Settings {
    chat_template: Option<String>,
    bos_token: Value,
    eos_token: Value,
}

impl Language {
    /// Reads the files of a folder. Without `tokenizer_config.json` there are no chats.
    pub(super) fn load(folder: &Path, ends: Vec<u32>) -> Result<Self, String> {
        let path = folder.join("tokenizer.json");
        let tokenizer = Tokenizer::from_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let path = folder.join("tokenizer_config.json");
        let settings: Settings = match std::fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))?,
            Err(_) => Settings::default(),
        };
        let templates = settings.chat_template.map(compile).transpose();
        Ok(Self {
            tokens: tokenizer.get_vocab_size(true),
            plain: Plain::new(&tokenizer),
            least: Least::of(&tokenizer),
            tokenizer: Arc::new(tokenizer),
            ends,
            templates: templates.map_err(|error| format!("{}: {error}", path.display()))?,
            begin: spelled(&settings.bos_token),
            end: spelled(&settings.eos_token),
        })
    }

    /// Tokens of the vocabulary.
    pub(super) fn len(&self) -> usize {
        self.tokens
    }

    pub(super) fn is_end(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }
}

/// A token of the settings: its text, or an object with it.
fn spelled(token: &Value) -> String {
    token.as_str().or_else(|| token.get("content")?.as_str()).unwrap_or_default().to_owned()
}

fn compile(source: String) -> Result<Environment<'static>, Error> {
    let mut templates = Environment::new();
    // Templates are written for Python's renderer with these two switched on.
    templates.set_trim_blocks(true);
    templates.set_lstrip_blocks(true);
    templates.add_function("raise_exception", |reason: String| -> Result<String, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, reason))
    });
    templates.add_template_owned("chat", source)?;
    Ok(templates)
}

impl Text for Language {
    fn tokenize(&self, prompt: &str) -> Result<Vec<u32>, EngineError> {
        let mut ids = Vec::new();
        for part in self.plain.parts(prompt) {
            let encoding = self.tokenizer.encode_fast(part, false);
            let encoding = encoding
                .map_err(|error| EngineError::Input { reason: format!("cannot tokenise the prompt: {error}") })?;
            ids.extend_from_slice(encoding.get_ids());
        }
        Ok(ids)
    }

    fn tokens_min(&self, prompt: &str) -> usize {
        self.least.as_ref().map_or(0, |least| least.tokens(self.plain.parts(prompt)))
    }

    fn chat_prompt(&self, messages: &[ChatMessage]) -> Result<String, EngineError> {
        let refused = |reason: String| EngineError::Input { reason };
        let templates = self.templates.as_ref();
        let templates = templates.ok_or_else(|| refused("the model has no chat template".to_owned()))?;
        let hide = |text: &str| self.plain.hide(text);
        let turns: Vec<Value> = messages
            .iter()
            .map(|message| json!({"role": hide(&message.role), "content": hide(&message.content)}))
            .collect();
        let values = context! {
            messages => turns,
            add_generation_prompt => true,
            bos_token => self.begin,
            eos_token => self.end,
        };
        let prompt = templates.get_template("chat").and_then(|template| template.render(values));
        prompt.map_err(|error| refused(format!("the model's chat template refuses the messages: {error}")))
    }

    fn decoder(&self) -> Box<dyn TokenDecoder> {
        let tokenizer = Arc::clone(&self.tokenizer);
        Box::new(Decoder { tokenizer, ids: Vec::new(), shown: String::new() })
    }
}

/// Decodes the tokens since the last whole word together: the text of a token can depend on the one before it.
struct Decoder {
    tokenizer: Arc<Tokenizer>,
    ids: Vec<u32>,
    /// Text of `ids` that was handed out.
    shown: String,
}

/// Tokens that are decoded together at most; a character has four bytes at most, each a token.
const TOGETHER_MAX: usize = 16;

impl Decoder {
    fn advance(&mut self, text: &mut String, at_end: bool) {
        let whole = self.tokenizer.decode(&self.ids, true).unwrap_or_default();
        // The replacement character at the end stands for bytes whose rest is still to come.
        let waits = whole.ends_with('\u{FFFD}') && !at_end && self.ids.len() < TOGETHER_MAX;
        let Some(fresh) = whole.strip_prefix(self.shown.as_str()).filter(|_| !waits) else { return };
        text.push_str(fresh);
        if self.ids.len() > 1 {
            // The last token stays, as what the next one is joined to.
            self.ids.drain(..self.ids.len() - 1);
            self.shown = self.tokenizer.decode(&self.ids, true).unwrap_or_default();
        } else {
            self.shown = whole;
        }
    }
}

impl TokenDecoder for Decoder {
    fn push(&mut self, token: u32, text: &mut String) {
        self.ids.push(token);
        self.advance(text, false);
    }

    fn finish(&mut self, text: &mut String) {
        self.advance(text, true);
        self.ids.clear();
        self.shown.clear();
    }
}
