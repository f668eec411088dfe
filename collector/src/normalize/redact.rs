//! What is never stored: prompts, completions and credentials, unless an operator says otherwise.
//!
//! ```text
//! attribute ─► key listed? ─► dropped          text ─► looks like a credential? ─► that part blotted out
//! ```
//!
//! Keys decide for what users wrote and models answered, and the lines in which engines log it are known; patterns find credentials
//! wherever they stand, in log bodies and error messages too.

mod keys;
mod patterns;
mod spoken;

use std::borrow::Cow;
use std::sync::Arc;

pub use keys::content;
pub use patterns::Patterns;

/// What stands where a credential was.
pub const BLOT: &str = "[redacted]";

/// What an operator says beyond the defaults.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Store what users wrote and models answered.
    pub keep_content: bool,
    /// Further keys that are dropped; each covers what lies under it.
    pub drop: Vec<String>,
    /// Keys that are stored although they are listed or look like a credential's; each covers what lies under it.
    pub keep: Vec<String>,
    /// What is blotted out of any text.
    pub patterns: Patterns,
}

/// Decides what is dropped before any table. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Redaction {
    rules: Arc<Rules>,
}

impl Redaction {
    /// Follows `rules`.
    pub fn new(rules: Rules) -> Self {
        Self { rules: Arc::new(rules) }
    }

    /// Whether an attribute of that key is dropped. A listed key covers what lies under it: `gen_ai.prompt.0.content`.
    pub fn drops(&self, key: &str) -> bool {
        let rules = &self.rules;
        let listed = |list: &[String]| list.iter().any(|listed| keys::covers(listed, key));
        listed(&rules.drop)
            || (((!rules.keep_content && keys::is_content(key)) || keys::is_credential(key)) && !listed(&rules.keep))
    }

    /// Whether an event of that name is a message of a conversation: its body, and what [`Redaction::drops_within`] says of
    /// its attributes, is dropped.
    pub fn drops_body(&self, event: &str) -> bool {
        !self.rules.keep_content && keys::is_content_event(event)
    }

    /// Whether an attribute of that key is dropped within an event that is a message.
    pub fn drops_within(&self, key: &str) -> bool {
        keys::is_message_part(key) && !self.rules.keep.iter().any(|kept| keys::covers(kept, key))
    }

    /// The text without credentials, and without what engines log of what users wrote and models answered.
    pub fn clean<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let text = if self.rules.keep_content { Cow::Borrowed(text) } else { spoken::blot(text) };
        match text {
            Cow::Borrowed(text) => self.rules.patterns.blot(text),
            Cow::Owned(text) => Cow::Owned(self.rules.patterns.blot(&text).into_owned()),
        }
    }
}

#[cfg(test)]
mod tests;
