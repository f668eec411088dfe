//! How many tokens a text has at least, told from its length alone: what can never fit a model is not taken apart.

use std::collections::HashMap;

use serde_json::Value;
use tokenizers::Tokenizer;
use tokenizers::models::ModelWrapper;

/// How much shorter a text can get when it is normalised to NFC: no character of the result has more than three times its bytes
/// in any text that becomes it.
const NFC_SHRINKS: usize = 3;

/// What a text's length says of its tokens.
pub(super) struct Least {
    /// Most bytes of text that become one token: those of the longest token.
    longest: usize,
    /// Bytes that the vocabulary cannot spell; they may be left out. `None` if there is none.
    lost: Option<Box<[bool; 256]>>,
}

impl Least {
    /// `None` where the tokeniser may leave other text out, or take any length of it for one token, so that there is no bound.
    pub(super) fn of(tokenizer: &Tokenizer) -> Option<Self> {
        let shrinks = match tokenizer.get_normalizer() {
            None => 1,
            Some(normalizer) => shrinks(&serde_json::to_value(normalizer).ok()?)?,
        };
        let split = tokenizer.get_pre_tokenizer().map(serde_json::to_value).transpose().ok()?;
        let is_of_bytes = split.as_ref().is_some_and(becomes_bytes);
        let added = tokenizer.get_added_tokens_decoder();
        let keeps_all = tokenizer.get_truncation().is_none()
            && split.as_ref().is_none_or(keeps)
            // Such a token takes the white space beside it.
            && !added.values().any(|token| token.lstrip || token.rstrip);
        let lost = lost(tokenizer, is_of_bytes)?;
        // What is normalised could become such bytes.
        if !keeps_all || lost.is_some() && shrinks > 1 {
            return None;
        }
        let letters = if is_of_bytes { byte_letters() } else { HashMap::new() };
        let bytes = |letter: char| if letters.contains_key(&letter) { 1 } else { letter.len_utf8() };
        let vocabulary = tokenizer.get_vocab(true);
        let learned = vocabulary.keys().map(|token| token.chars().map(bytes).sum::<usize>());
        let longest = learned.chain(added.values().map(|token| token.content.len())).max()?;
        (longest > 0).then_some(Self { longest: longest * shrinks, lost })
    }

    /// Tokens that these texts have at least, one after the other.
    pub(super) fn tokens<'a>(&self, texts: impl Iterator<Item = &'a str>) -> usize {
        let bytes: usize = match &self.lost {
            None => texts.map(str::len).sum(),
            Some(lost) => texts.map(|text| text.bytes().filter(|byte| !lost[usize::from(*byte)]).count()).sum(),
        };
        bytes.div_ceil(self.longest)
    }
}

/// How many times fewer bytes a text can have once it is normalised, as `tokenizer.json` has it; `None` where it may lose all of them.
fn shrinks(normalizer: &Value) -> Option<usize> {
    match normalizer["type"].as_str()? {
        "NFC" => Some(NFC_SHRINKS),
        "Prepend" => Some(1),
        "Replace" => {
            let (before, after) = (normalizer["pattern"]["String"].as_str()?, normalizer["content"].as_str()?);
            (after.len() >= before.len()).then_some(1)
        }
        "Sequence" => normalizer["normalizers"].as_array()?.iter().map(shrinks).product(),
        _ => None,
    }
}

/// Whether a split of text into words, as `tokenizer.json` has it, keeps all of the text.
fn keeps(split: &Value) -> bool {
    match split["type"].as_str() {
        Some("ByteLevel" | "Digits" | "Metaspace") => true,
        Some("Split") => split["behavior"] != "Removed",
        Some("Sequence") => split["pretokenizers"].as_array().is_some_and(|splits| splits.iter().all(keeps)),
        _ => false,
    }
}

/// Whether a split of text into words writes its bytes as letters.
fn becomes_bytes(split: &Value) -> bool {
    match split["type"].as_str() {
        Some("ByteLevel") => true,
        Some("Sequence") => split["pretokenizers"].as_array().is_some_and(|splits| splits.iter().any(becomes_bytes)),
        _ => false,
    }
}

/// Bytes that have no token of their own; `None` where the model is of another kind, which makes one token of any length of what it does
/// not know.
#[allow(clippy::option_option, reason = "no answer, and an answer of nothing")]
fn lost(tokenizer: &Tokenizer, is_of_bytes: bool) -> Option<Option<Box<[bool; 256]>>> {
    let ModelWrapper::BPE(model) = tokenizer.get_model() else { return None };
    let has = |name: &str| tokenizer.token_to_id(name).is_some();
    if !is_of_bytes {
        return (model.byte_fallback && (0..=u8::MAX).all(|byte| has(&format!("<0x{byte:02X}>")))).then_some(None);
    }
    let mut lost = Box::new([false; 256]);
    for (letter, byte) in byte_letters() {
        lost[usize::from(byte)] = !has(letter.encode_utf8(&mut [0; 4]));
    }
    // These are in no text.
    for never in [0xC0, 0xC1].into_iter().chain(0xF5..=0xFF) {
        lost[never] = false;
    }
    Some(lost.contains(&true).then_some(lost))
}

/// Byte-level BPE writes every byte as a printable letter: itself where it is one, else the next free letter from U+0100 on.
pub(super) fn byte_letters() -> HashMap<char, u8> {
    let mut letters = HashMap::new();
    let mut free = 0x100_u32;
    for byte in 0..=u8::MAX {
        let printable = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
        let letter = if printable {
            Some(char::from(byte))
        } else {
            free += 1;
            char::from_u32(free - 1)
        };
        letters.extend(letter.map(|letter| (letter, byte)));
    }
    letters
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tokenizer(model: Value, normalizer: Value, split: Value) -> Tokenizer {
        let value = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "post_processor": null,
            "decoder": null, "model": model, "normalizer": normalizer, "pre_tokenizer": split,
        });
        serde_json::from_value(value).unwrap()
    }

    /// As Llama 2 has it: spaces are `▁`, what has no token is spelled in bytes.
    fn with_bytes(bytes: std::ops::RangeInclusive<u8>) -> Value {
        let words = ["<unk>".to_owned(), "▁".to_owned(), "a".to_owned(), "▁a".to_owned()];
        let names = words.into_iter().chain(bytes.map(|byte| format!("<0x{byte:02X}>")));
        let vocabulary: serde_json::Map<_, _> = names.zip(0..).map(|(name, id)| (name, json!(id))).collect();
        json!({
            "type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
            "vocab": vocabulary, "merges": [["▁", "a"]],
        })
    }

    /// The 256 letters are all different, and a space is the well-known Ġ.
    #[test]
    fn every_byte_has_a_letter() {
        let letters = byte_letters();
        assert_eq!(letters.len(), 256);
        assert_eq!(letters[&'Ġ'], b' ');
        assert_eq!(letters[&'Ċ'], b'\n');
        assert_eq!(letters[&'é'], 0xE9);
    }

    /// Where all bytes can be spelled no text has fewer tokens than its length says; where a text may be lost, or become one token
    /// whatever its length, nothing is said.
    #[test]
    fn what_a_length_says() {
        let spaces = json!({"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ]});
        let llama = tokenizer(with_bytes(0..=255), spaces.clone(), Value::Null);
        let least = Least::of(&llama).unwrap();
        for text in ["a", "a a a a a a a a a a a a", "日本語 naïve", "\u{0}"] {
            let tokens = llama.encode_fast(text, false).unwrap().len();
            assert!((1..=tokens).contains(&least.tokens([text].into_iter())), "{text}: {tokens}");
        }
        // The longest tokens are those of bytes, such as `<0x00>`.
        assert_eq!(least.tokens(["日本", "語語"].into_iter()), 2);
        let stripped = json!({"type": "Sequence", "normalizers": [spaces.clone(), {"type": "Strip", "strip_left": true, "strip_right": true}]});
        assert!(Least::of(&tokenizer(with_bytes(0..=255), stripped, Value::Null)).is_none(), "spaces are lost");
        assert!(Least::of(&tokenizer(with_bytes(0..=127), spaces, Value::Null)).is_none(), "letters are unknown");
        let words = json!({"type": "WordLevel", "vocab": {"<unk>": 0}, "unk_token": "<unk>"});
        assert!(
            Least::of(&tokenizer(words, Value::Null, json!({"type": "Whitespace"}))).is_none(),
            "words are unknown"
        );
    }

    /// A vocabulary of bytes that lacks some, as SmolLM2's lacks control characters: those alone do not count.
    #[test]
    fn bytes_without_a_token() {
        let letters = byte_letters().into_iter().filter(|(_, byte)| ![4, 0xC0, 0xFF].contains(byte));
        let vocabulary: serde_json::Map<_, _> =
            letters.zip(0..).map(|((letter, _), id)| (letter.to_string(), json!(id))).collect();
        let model = json!({
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocabulary, "merges": [],
        });
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
        let nfc = json!({"type": "NFC"});
        let tokenizer_of = |normalizer| tokenizer(model.clone(), normalizer, bytes.clone());
        let (made, text) = (tokenizer_of(Value::Null), "a\u{4}b\u{4}\u{4} é");
        let tokens = made.encode_fast(text, false).unwrap().len();
        assert_eq!((Least::of(&made).unwrap().tokens([text].into_iter()), tokens), (5, 5));
        assert!(Least::of(&tokenizer_of(nfc)).is_none(), "what is normalised could become such bytes");
    }
}
