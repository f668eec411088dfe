//! Keeps what people write apart from what a chat template writes: the name of a control token within a message, such as
//! `<|im_end|>`, is text, or anybody could end a turn and begin one of the system.
//!
//! ```text
//! message -> hide (a mark within each such name) -> template -> parts (cut at the marks) -> tokens of each part
//! ```

use rand::Rng;
use tokenizers::Tokenizer;

/// The names of a model's control tokens, and a mark that no text has.
pub(super) struct Plain {
    mark: String,
    names: Vec<String>,
}

impl Plain {
    pub(super) fn new(tokenizer: &Tokenizer) -> Self {
        let added = tokenizer.get_added_tokens_decoder();
        let names = added.into_values().filter(|token| token.special).map(|token| token.content);
        Self {
            // A noncharacter of Unicode, and what nobody can guess.
            mark: format!("\u{FDD0}{:032x}\u{FDD0}", rand::rng().random::<u128>()),
            names: names.filter(|name| name.chars().nth(1).is_some()).collect(),
        }
    }

    /// The text with a mark after the first character of every name in it.
    pub(super) fn hide(&self, text: &str) -> String {
        let mut hidden = text.to_owned();
        for name in self.names.iter().filter(|name| text.contains(name.as_str())) {
            let mut marked = name.clone();
            marked.insert_str(name.chars().next().map_or(0, char::len_utf8), &self.mark);
            hidden = hidden.replace(name.as_str(), &marked);
        }
        hidden
    }

    /// What lies between marks; tokenised each on its own, no name in it becomes a token that was hidden.
    pub(super) fn parts<'a>(&'a self, text: &'a str) -> impl Iterator<Item = &'a str> {
        text.split(self.mark.as_str())
    }
}
