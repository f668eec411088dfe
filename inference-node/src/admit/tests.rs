use serde_json::json;
use telemetry::openai::{ChatRequest, CompletionRequest};

use super::options;

fn chat(extra: serde_json::Value) -> ChatRequest {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    serde_json::from_value(body).unwrap()
}

/// Options that ask for nothing pass, whatever their shape; those that change the answer do not.
#[test]
fn options_that_ask_for_nothing_pass() {
    for harmless in [
        json!({}),
        json!({"tools": [], "tool_choice": "auto", "response_format": {"type": "text"}, "modalities": ["text"]}),
        json!({"logprobs": false, "top_logprobs": 0, "logit_bias": {}, "presence_penalty": 0, "top_k": -1}),
        json!({"presence_penalty": -2, "frequency_penalty": 2, "repetition_penalty": 1.1, "min_p": 0.05}),
        json!({"logprobs": null, "stop": [], "n": 1, "temperature": 0, "top_p": 1}),
        json!({"functions": [], "function_call": "auto", "guided_json": null, "min_tokens": 0, "store": true}),
    ] {
        let request = chat(harmless.clone());
        assert!(options::check(&request.options, None).is_ok(), "{harmless}");
        assert!(options::check_chat(&request).is_ok(), "{harmless}");
    }
    for asking in [
        json!({"presence_penalty": 2.5}),
        json!({"frequency_penalty": -3}),
        json!({"repetition_penalty": 0}),
        json!({"min_p": 1.5}),
        json!({"logit_bias": {"5": 101}}),
        json!({"logit_bias": {"five": 1}}),
        json!({"logit_bias": {"5": null}}),
        json!({"logit_bias": [1]}),
        json!({"top_p": 0}),
        json!({"n": 9}),
        json!({"stop": ""}),
        json!({"tool_choice": "required"}),
        json!({"modalities": ["text", "audio"]}),
        json!({"functions": [{"name": "f"}]}),
        json!({"guided_json": {"type": "object"}}),
        json!({"structured_outputs": {"regex": "a+"}}),
        json!({"stop_token_ids": [2]}),
        json!({"min_tokens": 5}),
    ] {
        let request = chat(asking.clone());
        let checked = options::check(&request.options, None).and_then(|()| options::check_chat(&request));
        assert!(checked.is_err(), "{asking}");
    }
    assert!(options::check(&chat(json!({})).options, Some(0)).is_err());
}

/// The same for text completions.
#[test]
fn completion_options() {
    let check = |extra: serde_json::Value| {
        let mut body = json!({"model": "m", "prompt": "x"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let request: CompletionRequest = serde_json::from_value(body).unwrap();
        options::check(&request.options, None).and_then(|()| options::check_completion(&request)).is_ok()
    };
    assert!(
        check(json!({"response_format": {"type": "text"}}))
            && !check(json!({"response_format": {"type": "json_object"}}))
    );
    assert!(!check(json!({"grammar": "root ::= \"a\""})));
    assert!(check(json!({"echo": false, "best_of": 1, "suffix": null})));
    assert!(check(json!({"best_of": 3, "n": 3})));
    assert!(!check(json!({"echo": true})) && !check(json!({"best_of": 2})) && !check(json!({"suffix": "y"})));
}

/// Messages become plain text; the newer system role is the old one; empty conversations are none.
#[test]
fn messages_become_text() {
    let request: ChatRequest = serde_json::from_value(json!({"model": "m", "messages": [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": null},
    ]}))
    .unwrap();
    let plain = options::messages(&request.messages).unwrap();
    let pairs: Vec<_> = plain.iter().map(|message| (message.role.as_str(), message.content.as_str())).collect();
    assert_eq!(pairs, [("system", "be brief"), ("user", "ab"), ("assistant", "")]);
    assert!(options::messages(&[]).is_err());
}

/// The client's seed is used as it is, also a negative one; 0 is greedy.
#[test]
fn sampling_settings() {
    let options = json!({"seed": -1, "temperature": 0, "top_k": 40, "logit_bias": {"7": -100, "12": 0.5}});
    let sampling = options::sampling(&chat(options).options, None, 5).unwrap();
    assert_eq!((sampling.seed, sampling.temperature, sampling.top_k), (u64::MAX, 0.0, 40));
    let mut bias = sampling.bias.to_vec();
    bias.sort_unstable_by_key(|(token, _)| *token);
    assert_eq!(bias, [(7, -100.0), (12, 0.5)]);
    let free = options::sampling(&chat(json!({})).options, Some(3), 5).unwrap();
    assert_eq!(free, crate::engine::Sampling { seed: 5, likelihoods: Some(3), ..Default::default() });
}

/// A chat asks by a flag and a number, a text completion by a number alone.
#[test]
fn logprobs_are_asked_for_in_two_ways() {
    let asked = |read: fn(&telemetry::openai::Options) -> Result<Option<u32>, crate::serve::Fault>, extra| {
        read(&chat(extra).options).ok()
    };
    for (extra, expected) in [
        (json!({}), Some(None)),
        (json!({"logprobs": false, "top_logprobs": 0}), Some(None)),
        (json!({"logprobs": true}), Some(Some(0))),
        (json!({"logprobs": true, "top_logprobs": 20}), Some(Some(20))),
        (json!({"logprobs": true, "top_logprobs": 21}), None),
        (json!({"top_logprobs": 2}), None),
        (json!({"logprobs": 2}), None),
    ] {
        assert_eq!(asked(options::chat_logprobs, extra.clone()), expected, "{extra}");
    }
    for (extra, expected) in [
        (json!({"logprobs": null}), Some(None)),
        (json!({"logprobs": 0}), Some(Some(0))),
        (json!({"logprobs": 5}), Some(Some(5))),
        (json!({"logprobs": 21}), None),
        (json!({"logprobs": true}), None),
        (json!({"logprobs": -1}), None),
    ] {
        assert_eq!(asked(options::text_logprobs, extra.clone()), expected, "{extra}");
    }
}
