//! One choice's text on its way out: tokens become text, stop texts end it and are held back.

use std::sync::Arc;

use crate::engine::TokenDecoder;

/// Decodes a choice and watches for stop texts.
pub(crate) struct TextStream {
    decoder: Box<dyn TokenDecoder>,
    stops: Arc<[String]>,
    /// Text that may yet turn out to begin a stop text.
    held: String,
}

/// What a token brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Text that can be sent, possibly empty.
    pub(crate) text: String,
    /// A stop text came; nothing after it is text.
    pub(crate) stopped: bool,
}

impl TextStream {
    pub(crate) fn new(decoder: Box<dyn TokenDecoder>, stops: Arc<[String]>) -> Self {
        Self { decoder, stops, held: String::new() }
    }

    /// Takes in one token.
    pub(crate) fn push(&mut self, token: u32) -> Piece {
        self.decoder.push(token, &mut self.held);
        self.release()
    }

    /// Takes in the end; what was held back is text after all, unless a stop text is in it.
    pub(crate) fn finish(&mut self) -> Piece {
        self.decoder.finish(&mut self.held);
        let mut piece = self.release();
        if !piece.stopped {
            piece.text.push_str(&std::mem::take(&mut self.held));
        }
        piece
    }

    fn release(&mut self) -> Piece {
        let found = self.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min();
        if let Some(at) = found {
            self.held.truncate(at);
            return Piece { text: std::mem::take(&mut self.held), stopped: true };
        }
        let keep = self.stops.iter().map(|stop| begun(&self.held, stop)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - keep);
        Piece { text: std::mem::replace(&mut self.held, rest), stopped: false }
    }
}

/// Length of the longest end of `text` that is a beginning of `stop`.
fn begun(text: &str, stop: &str) -> usize {
    let ends = stop.char_indices().map(|(at, _)| at).filter(|at| *at > 0);
    ends.filter(|at| text.ends_with(&stop[..*at])).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each token is one character of its id.
    struct Letters;

    impl TokenDecoder for Letters {
        fn push(&mut self, token: u32, text: &mut String) {
            text.extend(char::from_u32(token));
        }

        fn finish(&mut self, _text: &mut String) {}
    }

    fn run(input: &str, stops: &[&str]) -> (Vec<String>, bool) {
        let stops: Arc<[String]> = stops.iter().map(|stop| (*stop).to_owned()).collect();
        let mut stream = TextStream::new(Box::new(Letters), stops);
        let mut pieces = Vec::new();
        for letter in input.chars() {
            let piece = stream.push(letter as u32);
            pieces.push(piece.text);
            if piece.stopped {
                return (pieces, true);
            }
        }
        pieces.push(stream.finish().text);
        (pieces, false)
    }

    /// Without stop texts every token's text leaves at once.
    #[test]
    fn text_passes_through() {
        assert_eq!(run("añ", &[]), (vec!["a".to_owned(), "ñ".to_owned(), String::new()], false));
    }

    /// The stop text and all after it are not part of the answer, and no part of it leaks out before.
    #[test]
    fn stop_text_is_cut() {
        let (pieces, stopped) = run("one END two", &["END", "two"]);
        assert!(stopped);
        assert_eq!(pieces.concat(), "one ");
        assert!(pieces.iter().all(|piece| !piece.contains('E')));
    }

    /// What only looked like a stop text is sent as soon as it cannot be one.
    #[test]
    fn false_starts_are_sent() {
        let (pieces, stopped) = run("aENaE", &["END"]);
        assert!(!stopped);
        assert_eq!(pieces, ["a", "", "", "ENa", "", "E"]);
    }

    /// Characters of several bytes are never cut.
    #[test]
    fn stop_texts_of_wide_characters() {
        let (pieces, stopped) = run("aéüb", &["éüx"]);
        assert_eq!((pieces.concat().as_str(), stopped), ("aéüb", false));
    }
}
