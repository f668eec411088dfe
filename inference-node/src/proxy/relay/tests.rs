use axum::http::HeaderValue;

use super::*;

/// What was asked for behind the client's back is taken out: from frames with text, and whole where a frame holds nothing else.
#[test]
fn frames_without_what_nobody_asked_for() {
    let usage = &super::super::dialect::Upstream::Vllm.extras()[0];
    let strip = |keeps_last| [Strip { extra: usage, keeps_last }];
    let text = |frame: &str, keeps_last: bool| match stripped(frame.as_bytes(), &strip(keeps_last)) {
        None => "untouched".to_owned(),
        Some(Kept::Nothing) => "gone".to_owned(),
        Some(Kept::Some(bytes)) => String::from_utf8(bytes).unwrap(),
    };
    let chunk = r#"{"choices":[{"delta":{"content":"a"}}],"usage":{"completion_tokens":1}}"#;
    let last = r#"{"choices":[],"usage":{"completion_tokens":1}}"#;
    assert_eq!(text(chunk, false), r#"{"choices":[{"delta":{"content":"a"}}]}"#);
    assert_eq!(text(last, false), "gone");
    assert_eq!(text(chunk, true), r#"{"choices":[{"delta":{"content":"a"}}]}"#);
    assert_eq!(text(last, true), "untouched");
    assert_eq!(text("[DONE]", false), "untouched");
}

/// Headers of the hop, those that `Connection` names, and the fleet's secret stay behind.
#[test]
fn headers_that_go_on() {
    let headers: HeaderMap = [
        ("connection", "close, x-private"),
        ("x-private", "1"),
        ("host", "a"),
        ("authorization", "Bearer k"),
        ("x-tokenwatt-fleet-secret", "s"),
        ("content-length", "5"),
    ]
    .into_iter()
    .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
    .collect();
    let names = |kept: &[HeaderName]| forwarded(&headers, kept).keys().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(&[]), ["authorization"]);
    let mut both = names(&[header::CONTENT_LENGTH]);
    both.sort();
    assert_eq!(both, ["authorization", "content-length"]);
}
