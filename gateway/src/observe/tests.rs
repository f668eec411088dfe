use super::*;

const STREAM: &str = concat!(
    "data: {\"id\":\"c1\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n",
    ": a comment\n\n",
    "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hel\"},\"finish_reason\":null}]}\r\n\r\n",
    "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"},\"finish_reason\":null}]}\n\n",
    "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"id\":\"c1\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3,\"total_tokens\":12}}\n\n",
    "data: [DONE]\n\n",
);

/// Feeds `text` in pieces of `size` bytes; piece k leaves at k ms.
fn watch(text: &str, size: usize) -> Seen {
    let mut observer = Observer::events();
    for (index, piece) in text.as_bytes().chunks(size).enumerate() {
        observer.see(piece, Duration::from_millis(index as u64));
    }
    observer.finish()
}

/// The same is seen however the bytes are cut; only the first content's time depends on it.
#[test]
fn cuts_do_not_matter() {
    let mut whole = watch(STREAM, STREAM.len());
    assert_eq!(whole.content_frames, Some(2));
    assert_eq!(whole.usage, Some(Usage::new(9, 3)));
    assert_eq!(whole.finish_reasons, ["stop"]);
    assert_eq!((whole.id.as_deref(), whole.model.as_deref()), (Some("c1"), Some("m")));
    assert_eq!(whole.first_content.take(), Some(Duration::ZERO));
    for size in [1, 7, 64, 200] {
        let mut seen = watch(STREAM, size);
        assert!(seen.first_content.take().is_some());
        assert_eq!(seen, whole, "pieces of {size}");
    }
}

/// A frame with only a role is not the first token.
#[test]
fn role_is_no_content() {
    let mut observer = Observer::events();
    let frames: Vec<&str> = STREAM.split_inclusive("\n\n").collect();
    for (index, frame) in frames.iter().enumerate() {
        observer.see(frame.as_bytes(), Duration::from_millis(index as u64));
    }
    assert_eq!(observer.finish().first_content, Some(Duration::from_millis(2)));
}

/// Text completions and reasoning count as content.
#[test]
fn other_content_counts() {
    for frame in [
        "data: {\"choices\":[{\"text\":\"x\"}]}\n",
        "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"x\"}}]}\n",
        "data:{\"choices\":[{\"delta\":{\"tool_calls\":[{}]}}]}\n",
    ] {
        assert_eq!(watch(frame, 1000).content_frames, Some(1), "{frame}");
    }
    assert_eq!(watch("data: no json\n\nevent: x\n", 5).content_frames, Some(0));
}

/// An answer in one piece gives its usage; its first token left with it, so no time is claimed.
#[test]
fn whole_answers_give_usage() {
    let mut observer = Observer::whole();
    let text = br#"{"id":"c2","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}"#;
    observer.see(&text[..50], Duration::ZERO);
    observer.see(&text[50..], Duration::ZERO);
    let seen = observer.finish();
    assert_eq!(seen.usage, Some(Usage::new(1, 2)));
    assert_eq!(seen.finish_reasons, ["length"]);
    assert_eq!((seen.content_frames, seen.first_content), (None, None));
}

/// A line without end is not kept for ever, and what was counted before it is no longer claimed.
#[test]
fn endless_line_is_given_up() {
    let mut observer = Observer::events();
    observer.see(STREAM.as_bytes(), Duration::ZERO);
    for _ in 0..3 {
        observer.see(&vec![b'x'; BYTES_MAX / 2], Duration::ZERO);
    }
    assert!(observer.pending.capacity() <= BYTES_MAX);
    assert_eq!(observer.finish().content_frames, None);
}
