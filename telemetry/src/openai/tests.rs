use super::*;

fn chat(json: &str) -> ChatRequest {
    serde_json::from_str(json).unwrap()
}

/// A body as the public client sends it, with fields nobody knows, is understood.
#[test]
fn unknown_fields_are_ignored() {
    let request = chat(
        r#"{"model": "m", "messages": [{"role": "user", "content": "hi", "name": "x"}], "stream": true,
            "stream_options": {"include_usage": true}, "stop": "\n", "max_completion_tokens": 7,
            "store": false, "metadata": {"a": "b"}}"#,
    );
    assert_eq!(request.options.model, "m");
    assert_eq!(request.max_completion_tokens, Some(7));
    assert_eq!(request.options.stop.unwrap().texts(), ["\n"]);
    assert!(request.options.stream_options.unwrap().include_usage);
    assert_eq!(request.options.others.len(), 2, "{:?}", request.options.others);
}

/// Text parts are joined in order; anything else names its kind.
#[test]
fn content_parts() {
    let parts = |json: &str| serde_json::from_str::<Content>(json).unwrap().text();
    assert_eq!(parts(r#"[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]"#), Ok("ab".to_owned()));
    assert_eq!(parts(r#"[{"type": "image_url", "image_url": {"url": "u"}}]"#), Err("image_url".to_owned()));
}

/// `usage` is left out, null, or a value, and all three survive a round trip.
#[test]
fn usage_tells_absent_from_null() {
    let answer = |usage| Answer {
        id: "i".into(),
        object: CHAT_CHUNK.into(),
        created: 1,
        model: "m".into(),
        choices: vec![],
        usage,
    };
    for (usage, text) in [
        (UsageField::Absent, None),
        (UsageField::Null, Some("\"usage\":null")),
        (UsageField::Known(Usage::new(3, 4)), Some("\"total_tokens\":7")),
    ] {
        let json = serde_json::to_string(&answer(usage.clone())).unwrap();
        assert_eq!(json.contains("usage"), text.is_some(), "{json}");
        assert!(text.is_none_or(|part| json.contains(part)), "{json}");
        assert_eq!(serde_json::from_str::<Answer>(&json).unwrap().usage, usage);
    }
}

/// A choice that goes on says so with explicit nulls, which clients read.
#[test]
fn finish_reason_is_null_not_absent() {
    let json = serde_json::to_string(&Choice::default()).unwrap();
    assert_eq!(json, r#"{"index":0,"logprobs":null,"finish_reason":null}"#);
}

/// All shapes of a prompt are read; token ids are kept apart.
#[test]
fn prompts() {
    let prompt = |json: &str| serde_json::from_str::<Prompt>(json).unwrap();
    assert_eq!(prompt(r#""a""#), Prompt::Text("a".into()));
    assert_eq!(prompt(r#"["a","b"]"#), Prompt::Texts(vec!["a".into(), "b".into()]));
    assert!(matches!(prompt("[1, 2]"), Prompt::Other(_)));
}
