//! Log probabilities in the two shapes of OpenAI's APIs.

use serde_json::{Map, Value, json};

use crate::admit::Style;
use crate::engine::{Likelihood, Likelihoods};

/// Stands for a probability of zero, whose logarithm JSON cannot spell; the value that OpenAI sends.
const LEAST: f32 = -9999.0;

/// `logprobs` of a choice or a piece of one. `offset` is where the first token's text begins in the answer, in characters, and
/// is moved to its end.
pub(super) fn of(style: Style, tokens: &[&Likelihoods], offset: &mut usize) -> Value {
    match style {
        Style::Chat => {
            let content: Vec<Value> = tokens.iter().map(|token| in_chat(token)).collect();
            json!({"content": content, "refusal": null})
        }
        Style::Text => in_text(tokens, offset),
    }
}

fn in_chat(token: &Likelihoods) -> Value {
    let named = |one: &Likelihood| json!({"token": spelled(one), "logprob": ln(one), "bytes": one.bytes});
    let mut value = named(&token.picked);
    value["top_logprobs"] = token.likeliest.iter().map(named).collect();
    value
}

fn in_text(tokens: &[&Likelihoods], offset: &mut usize) -> Value {
    let (mut texts, mut lns, mut tops, mut offsets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for token in tokens {
        let text = spelled(&token.picked);
        offsets.push(*offset);
        *offset += text.chars().count();
        texts.push(text);
        lns.push(ln(&token.picked));
        let top: Map<String, Value> = token.likeliest.iter().map(|one| (spelled(one), json!(ln(one)))).collect();
        tops.push(top);
    }
    json!({"tokens": texts, "token_logprobs": lns, "top_logprobs": tops, "text_offset": offsets})
}

/// The token's text; bytes that are no whole character are replaced.
fn spelled(one: &Likelihood) -> String {
    String::from_utf8_lossy(&one.bytes).into_owned()
}

fn ln(one: &Likelihood) -> f32 {
    one.ln.max(LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn likelihoods() -> Likelihoods {
        let one = |text: &str, ln| Likelihood { bytes: text.as_bytes().into(), ln };
        Likelihoods { picked: one(" né", -0.5), likeliest: vec![one(" né", -0.5), one("x", f32::NEG_INFINITY)] }
    }

    /// A chat names token, logarithm and bytes, and its alternatives alike.
    #[test]
    fn chats_list_tokens() {
        let value = of(Style::Chat, &[&likelihoods()], &mut 0);
        let first = &value["content"][0];
        assert_eq!((&first["token"], &first["bytes"]), (&json!(" né"), &json!([32, 110, 195, 169])));
        assert_eq!(first["top_logprobs"][1], json!({"token": "x", "logprob": -9999.0, "bytes": [120]}));
        assert!(value["refusal"].is_null());
    }

    /// A text completion lists columns; offsets count characters and go on from piece to piece.
    #[test]
    fn completions_list_columns() {
        let mut offset = 4;
        let value = of(Style::Text, &[&likelihoods(), &likelihoods()], &mut offset);
        assert_eq!((&value["tokens"], &value["text_offset"]), (&json!([" né", " né"]), &json!([4, 7])));
        assert_eq!((&value["token_logprobs"], &value["top_logprobs"][0]["x"]), (&json!([-0.5, -0.5]), &json!(-9999.0)));
        assert_eq!(offset, 10);
    }
}
