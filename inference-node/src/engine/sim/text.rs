//! Made-up text: sentences of a small grammar, one token a word.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::engine::{ChatMessage, EngineError, Text, TokenDecoder};

/// The end-of-sequence token.
pub(super) const END: u32 = u32::MAX;

/// Token ids are `class * CLASS_SIZE + word`.
const CLASS_SIZE: u32 = 64;
const CLASSES: [&[&str]; 8] = [
    &["the", "a", "every", "this", "that", "each", "one", "another"],
    &["careful", "quiet", "warm", "steady", "distant", "simple", "early", "long", "bright", "busy", "small", "exact"],
    &[
        "engine", "region", "answer", "signal", "harbor", "reader", "model", "garden", "river", "number", "machine",
        "traveler", "market", "window", "pattern", "teacher", "question", "record", "journey", "lesson",
    ],
    &[
        "measures",
        "follows",
        "explains",
        "carries",
        "repeats",
        "answers",
        "reaches",
        "compares",
        "describes",
        "keeps",
        "supports",
        "changes",
    ],
    &["near", "beyond", "without", "inside", "before", "after", "through", "along"],
    &["because", "while", "although", "whenever", "and", "so"],
    &["often", "slowly", "usually", "rarely", "again", "together"],
    &[".", ",", "?"],
];
const DETERMINER: usize = 0;
const ADJECTIVE: usize = 1;
const NOUN: usize = 2;
const VERB: usize = 3;
const PREPOSITION: usize = 4;
const CONJUNCTION: usize = 5;
const ADVERB: usize = 6;
const MARK: usize = 7;

/// Sentence shapes by word class; a full stop follows each.
const SENTENCES: [&[usize]; 5] = [
    &[DETERMINER, ADJECTIVE, NOUN, VERB, DETERMINER, NOUN],
    &[DETERMINER, NOUN, ADVERB, VERB, DETERMINER, ADJECTIVE, NOUN, PREPOSITION, DETERMINER, NOUN],
    &[DETERMINER, NOUN, VERB, DETERMINER, NOUN, CONJUNCTION, DETERMINER, ADJECTIVE, NOUN, VERB, DETERMINER, NOUN],
    &[PREPOSITION, DETERMINER, NOUN, DETERMINER, NOUN, VERB, DETERMINER, ADJECTIVE, NOUN],
    &[DETERMINER, ADJECTIVE, NOUN, PREPOSITION, DETERMINER, NOUN, VERB, DETERMINER, NOUN, ADVERB],
];

/// Writes one sequence's text.
pub(super) struct Writer {
    rng: StdRng,
    sentence: &'static [usize],
    at: usize,
}

impl Writer {
    pub(super) fn new(seed: u64) -> Self {
        Self { rng: StdRng::seed_from_u64(seed), sentence: SENTENCES[0], at: usize::MAX }
    }

    pub(super) fn next_token(&mut self) -> u32 {
        if self.at == self.sentence.len() {
            self.at = usize::MAX;
            return token(MARK, 0);
        }
        if self.at == usize::MAX {
            self.sentence = SENTENCES[self.rng.random_range(0..SENTENCES.len())];
            self.at = 0;
        }
        let class = self.sentence[self.at];
        self.at += 1;
        token(class, self.rng.random_range(0..CLASSES[class].len()))
    }
}

/// A draw from the standard normal distribution (Box and Muller).
pub(super) fn normal(rng: &mut StdRng) -> f64 {
    let (radius, angle): (f64, f64) = (rng.random::<f64>().max(1e-12), rng.random());
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

// Classes and words are few: both fit.
fn token(class: usize, word: usize) -> u32 {
    u32::try_from(class).unwrap_or(0) * CLASS_SIZE + u32::try_from(word).unwrap_or(0)
}

fn word(token: u32) -> Option<&'static str> {
    let class = CLASSES.get((token / CLASS_SIZE) as usize)?;
    class.get((token % CLASS_SIZE) as usize).copied()
}

/// The simulated tokeniser: about one token for four bytes of a word, as the real ones come out on English.
pub(super) struct Words;

/// Bytes of text for one token.
const TOKEN_BYTES: usize = 4;

impl Text for Words {
    fn tokenize(&self, prompt: &str) -> Result<Vec<u32>, EngineError> {
        let pieces = prompt.split_whitespace().flat_map(|word| word.as_bytes().chunks(TOKEN_BYTES));
        let tokens: Vec<u32> =
            pieces.map(|piece| piece.iter().fold(17, |hash, byte| hash * 31 % 30_000 + u32::from(*byte))).collect();
        // An empty prompt is one begin-of-sequence token.
        Ok(if tokens.is_empty() { vec![0] } else { tokens })
    }

    fn chat_prompt(&self, messages: &[ChatMessage]) -> Result<String, EngineError> {
        let mut prompt = String::new();
        for message in messages {
            prompt.push_str(&format!("<{}> {} </> ", message.role, message.content));
        }
        prompt.push_str("<assistant>");
        Ok(prompt)
    }

    fn decoder(&self) -> Box<dyn TokenDecoder> {
        Box::new(Decoder { fresh: true, begun: false })
    }
}

struct Decoder {
    /// A sentence begins.
    fresh: bool,
    /// Text was written before.
    begun: bool,
}

impl TokenDecoder for Decoder {
    fn push(&mut self, token: u32, text: &mut String) {
        let Some(word) = word(token) else { return };
        let mark = token / CLASS_SIZE == MARK as u32;
        if self.begun && !mark {
            text.push(' ');
        }
        let mut letters = word.chars();
        match letters.next() {
            Some(first) if self.fresh => {
                text.extend(first.to_uppercase());
                text.push_str(letters.as_str());
            }
            _ => text.push_str(word),
        }
        self.begun = true;
        self.fresh = mark && word != ",";
    }

    fn finish(&mut self, _text: &mut String) {}
}
