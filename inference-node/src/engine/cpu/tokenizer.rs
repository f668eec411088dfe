//! Text to tokens and back, built from the vocabulary and merges inside the GGUF file, or from `tokenizer.json`.

use std::collections::HashMap;
use std::sync::Arc;

use tokenizers::models::bpe::BPE;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::{AddedToken, Tokenizer};

use super::checkpoint::Checkpoint;
use super::gguf::{Fault, Gguf};
use super::safetensors::{Safetensors, json};
use crate::engine::least::{Least, byte_letters};
use crate::engine::plain::Plain;
use crate::engine::{EngineError, TokenDecoder};

/// Kinds of token in a GGUF vocabulary that have no text: control and unused.
const KINDS_WITHOUT_TEXT: [i64; 2] = [3, 5];

/// The tokeniser of one model.
pub(crate) struct Vocabulary {
    tokenizer: Tokenizer,
    plain: Plain,
    pieces: Pieces,
    /// Tokens that end a text.
    ends: Vec<u32>,
    /// Put before a prompt, if the model wants it.
    begin: Option<u32>,
    /// What a text's length says of its tokens, where it says anything.
    least: Option<Least>,
}

/// The bytes that each token stands for; empty for control tokens.
type Pieces = Arc<[Box<[u8]>]>;

impl Vocabulary {
    /// Builds the tokeniser.
    pub(crate) fn load(model: &Checkpoint) -> Result<Self, Fault> {
        match model {
            Checkpoint::Gguf(file) => Self::from_gguf(file),
            Checkpoint::Safetensors(files) => Self::from_json(files),
        }
    }

    /// From `tokenizer.json`, as Hugging Face's library reads it.
    fn from_json(files: &Safetensors) -> Result<Self, Fault> {
        let value = json(files.directory(), "tokenizer.json")?;
        if value["model"]["type"] != "BPE" || value["decoder"]["type"] != "ByteLevel" {
            let kinds = format!("{} with decoder {}", value["model"]["type"], value["decoder"]["type"]);
            return Err(files.fault(format!("has a tokeniser {kinds}, only byte-level BPE is supported")));
        }
        let fault = |error: String| files.fault(format!("has an unusable tokenizer.json: {error}"));
        let tokenizer: Tokenizer = serde_json::from_value(value).map_err(|error| fault(error.to_string()))?;
        let named = tokenizer.get_vocab(true);
        let size = named.values().max().map_or(0, |id| *id as usize + 1);
        if size > 2 * named.len() {
            return Err(fault(format!("{} tokens have ids up to {size}", named.len())));
        }
        let (mut tokens, mut kinds) = (vec![String::new(); size], vec![1; size]);
        for (token, id) in named {
            tokens[id as usize] = token;
        }
        for (id, token) in tokenizer.get_added_tokens_decoder() {
            if let Some(kind) = kinds.get_mut(id as usize).filter(|_| token.special) {
                *kind = KINDS_WITHOUT_TEXT[0];
            }
        }
        let empty = tokenizer.encode_fast("", true).map_err(|error| fault(error.to_string()))?;
        let ends = ends(files.ends(), &tokens);
        let pieces = pieces(&tokens, &kinds);
        let (least, plain) = (Least::of(&tokenizer), Plain::new(&tokenizer));
        Ok(Self { begin: empty.get_ids().first().copied(), pieces, tokenizer, plain, ends, least })
    }

    fn from_gguf(file: &Gguf) -> Result<Self, Fault> {
        let model = file.text("tokenizer.ggml.model").unwrap_or_default();
        if model != "gpt2" {
            return Err(file.fault(format!("has a `{model}` tokeniser, only byte-level BPE (`gpt2`) is supported")));
        }
        let tokens = file.texts("tokenizer.ggml.tokens")?;
        let kinds = file.numbers("tokenizer.ggml.token_type");
        let tokenizer = bpe(file, &tokens, &kinds)?;
        let begin = match file.flag("tokenizer.ggml.add_bos_token") {
            Some(true) => file.id("tokenizer.ggml.bos_token_id"),
            _ => None,
        };
        let own = ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"].iter().filter_map(|key| file.id(key));
        let ends = ends(own.collect(), &tokens);
        let pieces = pieces(&tokens, &kinds);
        let (least, plain) = (Least::of(&tokenizer), Plain::new(&tokenizer));
        Ok(Self { tokenizer, plain, pieces, ends, begin, least })
    }

    /// What tells a message's text from the template's.
    pub(crate) fn plain(&self) -> &Plain {
        &self.plain
    }

    /// Token ids of `text`; special tokens spelled in it become themselves, unless they are hidden.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>, EngineError> {
        let mut ids = Vec::new();
        for part in self.plain.parts(text) {
            let encoding = self.tokenizer.encode_fast(part, false);
            let encoding = encoding
                .map_err(|error| EngineError::Input { reason: format!("cannot tokenise the prompt: {error}") })?;
            ids.extend_from_slice(encoding.get_ids());
        }
        // A chat template may have written it already.
        let begin = self.begin.filter(|begin| ids.first() != Some(begin));
        Ok(begin.into_iter().chain(ids).collect())
    }

    /// Tokens that `text` has at least, told from its length; 0 where that says nothing.
    pub(crate) fn tokens_min(&self, text: &str) -> usize {
        self.least.as_ref().map_or(0, |least| least.tokens(self.plain.parts(text)))
    }

    /// Whether the model ends its text with this token.
    pub(crate) fn is_end(&self, token: u32) -> bool {
        self.ends.contains(&token)
    }

    /// Tokens in the vocabulary.
    pub(crate) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// The bytes that a token stands for; a control token's is its name.
    pub(crate) fn piece(&self, token: u32) -> Box<[u8]> {
        match self.pieces.get(token as usize) {
            Some(piece) if !piece.is_empty() => piece.clone(),
            _ => self.tokenizer.id_to_token(token).unwrap_or_default().into_bytes().into(),
        }
    }

    pub(crate) fn decoder(&self) -> Decoder {
        Decoder { pieces: Arc::clone(&self.pieces), pending: Vec::new() }
    }
}

/// Turns tokens into text as they come and holds back a character until all its bytes are there.
pub(crate) struct Decoder {
    pieces: Pieces,
    pending: Vec<u8>,
}

impl TokenDecoder for Decoder {
    fn push(&mut self, token: u32, text: &mut String) {
        if let Some(piece) = self.pieces.get(token as usize) {
            self.pending.extend_from_slice(piece);
        }
        let keep = incomplete(&self.pending);
        let rest = self.pending.split_off(self.pending.len() - keep);
        text.push_str(&String::from_utf8_lossy(&self.pending));
        self.pending = rest;
    }

    fn finish(&mut self, text: &mut String) {
        text.push_str(&String::from_utf8_lossy(&self.pending));
        self.pending.clear();
    }
}

/// Bytes at the end that may be the start of a character still to be completed; at most 3.
fn incomplete(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let needed = match bytes[bytes.len() - back] {
            0b1100_0000..=0b1101_1111 => 2,
            0b1110_0000..=0b1110_1111 => 3,
            0b1111_0000..=0b1111_0111 => 4,
            0b1000_0000..=0b1011_1111 => continue,
            _ => return 0,
        };
        return if back < needed { back } else { 0 };
    }
    0
}

fn bpe(file: &Gguf, tokens: &[String], kinds: &[i64]) -> Result<Tokenizer, Fault> {
    let vocabulary: HashMap<String, u32> = tokens.iter().cloned().zip(0..).collect();
    let mut merges = Vec::new();
    for merge in file.texts("tokenizer.ggml.merges")? {
        match merge.split_once(' ') {
            Some((left, right)) => merges.push((left.to_owned(), right.to_owned())),
            None => return Err(file.fault(format!("has a merge without two parts: `{merge}`"))),
        }
    }
    let fault = |error: tokenizers::Error| file.fault(format!("has a vocabulary that does not fit together: {error}"));
    let model = BPE::builder()
        .vocab_and_merges(vocabulary.into_iter().collect::<tokenizers::models::bpe::Vocab>(), merges)
        .build();
    let mut tokenizer = Tokenizer::new(model.map_err(fault)?);
    let bytes = ByteLevel::new(false, false, true);
    let splits = match file.text("tokenizer.ggml.pre") {
        // These were trained with every digit on its own, before the byte-level split.
        Some("smollm" | "refact" | "starcoder") => vec![Digits::new(true).into(), bytes.into()],
        _ => vec![bytes.into()],
    };
    tokenizer.with_pre_tokenizer(Some(Sequence::new(splits)));
    let special = tokens.iter().zip(kinds).filter(|(_, kind)| **kind == 3);
    let special: Vec<AddedToken> = special.map(|(token, _)| AddedToken::from(token.clone(), true)).collect();
    tokenizer.add_special_tokens(special).map_err(fault)?;
    Ok(tokenizer)
}

/// The model's own end tokens, and the ends of turn that chat models use beside them.
fn ends(own: Vec<u32>, tokens: &[String]) -> Vec<u32> {
    let mut ends = own;
    for (token, id) in tokens.iter().zip(0..) {
        if matches!(token.as_str(), "<|im_end|>" | "<|endoftext|>" | "<|eot_id|>") && !ends.contains(&id) {
            ends.push(id);
        }
    }
    ends
}

fn pieces(tokens: &[String], kinds: &[i64]) -> Pieces {
    let letters = byte_letters();
    let piece = |(index, token): (usize, &String)| -> Box<[u8]> {
        if kinds.get(index).is_some_and(|kind| KINDS_WITHOUT_TEXT.contains(kind)) {
            return Box::default();
        }
        let mut bytes = Vec::with_capacity(token.len());
        for letter in token.chars() {
            match letters.get(&letter) {
                Some(byte) => bytes.push(*byte),
                None => bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        bytes.into_boxed_slice()
    };
    tokens.iter().enumerate().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]]) -> Vec<String> {
        let pieces: Pieces = pieces.iter().map(|piece| Box::from(*piece)).collect();
        let mut decoder = Decoder { pieces: Arc::clone(&pieces), pending: Vec::new() };
        let mut parts = Vec::new();
        for token in 0..pieces.len() as u32 {
            let mut text = String::new();
            decoder.push(token, &mut text);
            parts.push(text);
        }
        let mut text = String::new();
        decoder.finish(&mut text);
        parts.push(text);
        parts
    }

    /// A character is shown when its last byte is there, never in halves.
    #[test]
    fn characters_are_never_broken() {
        let euro = "€".as_bytes();
        assert_eq!(decode(&[b"a", &euro[..1], &euro[1..2], &euro[2..], b"b"]), ["a", "", "", "€", "b", ""]);
        let crab = "🦀".as_bytes();
        assert_eq!(decode(&[&crab[..3], &[crab[3], b'!']]), ["", "🦀!", ""]);
    }

    /// Bytes that can never become a character are replaced, at once or at the end.
    #[test]
    fn wrong_bytes_are_replaced() {
        assert_eq!(decode(&[&[0xFF], b"x"]), ["\u{FFFD}", "x", ""]);
        assert_eq!(decode(&[&[0xE2, 0x82]]), ["", "\u{FFFD}"]);
        assert_eq!(decode(&[&[0xE2], b"x"]), ["", "\u{FFFD}x", ""]);
    }
}
