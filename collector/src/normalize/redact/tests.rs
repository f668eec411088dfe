use super::*;

fn redaction(rules: Rules) -> Redaction {
    Redaction::new(rules)
}

/// What a user wrote never reaches a table; what it cost does.
#[test]
fn content_and_credentials_are_dropped_and_counts_kept() {
    let redaction = redaction(Rules { drop: vec!["acme.note".into()], ..Rules::default() });
    for key in [
        "gen_ai.prompt",
        "gen_ai.prompt.0.content",
        "gen_ai.input.messages",
        "llm.input_messages.0.message.content",
        "traceloop.entity.input",
        "ai.prompt.messages",
        "http.request.header.authorization",
        "litellm.api_key",
        "X-API-Key",
        "acme.note",
        "acme.note.deep",
    ] {
        assert!(redaction.drops(key), "{key}");
    }
    for key in [
        "gen_ai.usage.prompt_tokens",
        "gen_ai.output.type",
        "llm.token_count.prompt",
        "gen_ai.request.max_tokens",
        "litellm.api_key.hash",
        "http.route",
        "acme.notes",
        "tokenwatt.token.index",
        "input.mime_type",
    ] {
        assert!(!redaction.drops(key), "{key}");
    }
}

/// An operator who asks for content gets it, but never credentials.
#[test]
fn content_can_be_kept_but_credentials_cannot() {
    let redaction = redaction(Rules { keep_content: true, ..Rules::default() });
    assert!(!redaction.drops("gen_ai.prompt"));
    assert!(!redaction.drops_body("gen_ai.user.message"));
    let logged = "Received request r: prompt: 'sk-proj-abcdefghijklmnop0123456789 hi', params: None";
    assert_eq!(redaction.clean(logged), "Received request r: prompt: '[redacted] hi', params: None");
    assert_eq!(Redaction::default().clean(logged), "Received request r: prompt: [redacted], params: None");
    assert!(redaction.drops("db.password"));
}

/// A key that is kept by name is kept, with what lies under it; one that is dropped by name is dropped first.
#[test]
fn keys_can_be_kept_one_by_one() {
    let keep = ["gen_ai.prompt.name", "session.cookie_consent", "acme"].map(str::to_owned).to_vec();
    let redaction = redaction(Rules { keep, drop: vec!["acme.note".to_owned()], ..Rules::default() });
    assert!(!redaction.drops("gen_ai.prompt.name") && redaction.drops("gen_ai.prompt.0.content"));
    assert!(!redaction.drops("session.cookie_consent") && redaction.drops("session.cookie"));
    assert!(redaction.drops("acme.note") && !redaction.drops("acme.password"));
}

/// Credentials are blotted out of any text, and the text around them stays.
#[test]
fn credentials_are_blotted_out_of_texts() {
    let redaction = Redaction::default();
    let token = format!("tw_{}", "0f".repeat(32));
    for secret in [
        "sk-proj-abcdefghijklmnop0123456789",
        "sk-ant-api03-abcdefghijklmnop0123456789",
        "AKIAIOSFODNN7EXAMPLE",
        "hf_abcdefghijklmnopqrstuvwxyz",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "xoxb-0123456789-abcdef",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
        "Bearer abcdefghijklmnop",
        "api_key=abcdefgh12",
        "\"password\": \"hunter2hunter2",
        "://user:pa55word@",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
        &token,
    ] {
        let text = format!("before {secret} after");
        let cleaned = redaction.clean(&text);
        assert!(cleaned.contains(BLOT) && cleaned.starts_with("before ") && cleaned.ends_with(" after"), "{cleaned}");
        for part in secret.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| part.len() > 9) {
            assert!(!cleaned.contains(part), "{part} in {cleaned}");
        }
    }
}

/// Ordinary texts are stored to the letter, those of our own trade above all.
#[test]
fn ordinary_texts_are_not_touched() {
    let redaction = Redaction::default();
    for text in [
        "task-0123456789abcdefghijkl",
        "risk-assessment-of-the-new-datacenter-site",
        "/v1/chat/completions?api-version=2024-10-21",
        "https://example.com:8080/path@2x.png",
        "basic authentication failed",
        "0123456789abcdef0123456789abcdef",
        "meta-llama/Llama-3.1-70B-Instruct",
        "max_tokens: 4096, password: ***",
        "2026-11-29T21:00:00Z ERROR request failed",
    ] {
        assert_eq!(redaction.clean(text), text);
    }
}

/// An operator's pattern works beside ours; one that is wrong is named.
#[test]
fn patterns_of_an_operator() {
    let patterns = Patterns::new(&["ACME-[0-9]{4}".to_owned()]).unwrap();
    let redaction = redaction(Rules { patterns, ..Rules::default() });
    assert_eq!(redaction.clean("ACME-1234"), BLOT);
    assert_eq!(redaction.clean("see ACME-1234 and AKIAIOSFODNN7EXAMPLE"), "see [redacted] and [redacted]");
    for wrong in ["(", "a*", "(?:x{1000}){1000}"] {
        let fault = Patterns::new(&[wrong.to_owned()]).unwrap_err();
        assert!(fault.contains(wrong), "{fault}");
    }
}

/// Events that are messages lose their text by whatever name, and nothing else.
#[test]
fn events_that_are_messages() {
    let redaction = Redaction::default();
    for event in ["gen_ai.user.message", "gen_ai.choice", "gen_ai.content.prompt"] {
        assert!(redaction.drops_body(event), "{event}");
    }
    assert!(!redaction.drops_body("gen_ai.content") && !redaction.drops_body("exception"));
    assert!(redaction.drops_within("content") && redaction.drops_within("message.content"));
    assert!(!redaction.drops_within("role") && !redaction.drops_within("gen_ai.provider.name"));
}
