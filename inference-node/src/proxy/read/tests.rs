use super::*;

fn read(upstream: Upstream, form: Form, choices: u32, frames: &[&str]) -> (Vec<Chunk>, Reader) {
    let mut reader = Reader::new(upstream, form, choices);
    let chunks = frames.iter().flat_map(|frame| reader.frame(frame.as_bytes())).collect();
    (chunks, reader)
}

fn tokens(chunks: &[Chunk]) -> Vec<Option<u32>> {
    chunks.iter().map(|chunk| chunk.tokens).collect()
}

/// vLLM may put several tokens into one chunk: usage so far says how many. A role without text is no chunk, and a token without
/// text rides on the next chunk.
#[test]
fn usage_with_every_chunk() {
    let (chunks, reader) = read(
        Upstream::Vllm,
        Form::Chat,
        1,
        &[
            r#"{"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"usage":{"prompt_tokens":9,"completion_tokens":0,"total_tokens":9}}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"ab"}}],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}"#,
            r#"{"choices":[{"index":0,"delta":{"content":""}}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"cdef"}}],"usage":{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14}}"#,
            r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":6,"total_tokens":15}}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":6,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4}}}"#,
            "[DONE]",
        ],
    );
    assert_eq!(tokens(&chunks), [Some(1), Some(4)]);
    assert_eq!((reader.by(), reader.done), (Counted::Usage, true));
    let said = reader.said;
    assert_eq!((said.input_tokens, said.output_tokens, said.cached_tokens), (Some(9), Some(6), Some(4)));
    assert_eq!(
        (said.id.as_deref(), said.model.as_deref(), said.finish_reasons),
        (Some("c"), Some("m"), vec!["stop".to_owned()])
    );
}

/// Engines disagree whose usage so far is where a call has several choices: then it counts no chunk.
#[test]
fn usage_of_several_choices_is_not_trusted() {
    let usage = r#""usage":{"prompt_tokens":1,"completion_tokens":7,"total_tokens":8}"#;
    let frame = |index: u32| format!(r#"{{"choices":[{{"index":{index},"delta":{{"content":"x"}}}}],{usage}}}"#);
    let (chunks, reader) = read(Upstream::Vllm, Form::Chat, 2, &[&frame(0), &frame(1)]);
    assert_eq!(tokens(&chunks), [None, None]);
    assert_eq!((reader.by(), reader.said.output_tokens), (Counted::Chunks, Some(7)));
}

/// Log probabilities and token ids list a chunk's tokens, also those without text.
#[test]
fn listed_tokens() {
    let (chunks, reader) = read(
        Upstream::Openai,
        Form::Chat,
        1,
        &[
            r#"{"choices":[{"index":0,"delta":{"content":"a"},"logprobs":{"content":[{"token":"a"}]}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":""},"logprobs":{"content":[{"token":"b"},{"token":"c"}]}}]}"#,
            r#"{"choices":[{"index":1,"delta":{"reasoning":"why"},"token_ids":[1,2,3]}]}"#,
        ],
    );
    assert_eq!(tokens(&chunks), [Some(1), Some(2), Some(3)]);
    assert_eq!((chunks[2].choice, chunks[2].bytes, reader.by()), (1, 3, Counted::Tokens));
    let (chunks, _) = read(
        Upstream::Openai,
        Form::Completion,
        1,
        &[r#"{"choices":[{"text":"ab","logprobs":{"tokens":["a","b"]}}]}"#],
    );
    assert_eq!(tokens(&chunks), [Some(2)]);
}

/// TGI sends one token an event, the special one at the end included, and says at the end how many they were.
#[test]
fn tgi_events_are_tokens() {
    let (chunks, reader) = read(
        Upstream::Tgi,
        Form::Tgi,
        1,
        &[
            r#"{"index":1,"token":{"id":5,"text":"He","logprob":-0.1,"special":false},"generated_text":null,"details":null}"#,
            r#"{"index":2,"token":{"id":0,"text":"</s>","logprob":-0.1,"special":true},"generated_text":"He","details":{"finish_reason":"eos_token","generated_tokens":2,"seed":null,"input_length":3}}"#,
        ],
    );
    assert_eq!(tokens(&chunks), [Some(1), Some(1)]);
    assert_eq!((chunks[1].bytes, reader.by()), (0, Counted::Tokens));
    assert_eq!((reader.said.output_tokens, reader.said.input_tokens), (Some(2), Some(3)));
    assert_eq!(reader.said.finish_reasons, ["eos_token"]);
    let (_, reader) = read(Upstream::Tgi, Form::Tgi, 1, &[r#"{"error":"Request failed","error_type":"generation"}"#]);
    assert_eq!(reader.said.error.as_deref(), Some("Request failed"));
}

/// Triton's generate extension: text in one piece or in a list, and counts where the model gives them.
#[test]
fn triton_outputs() {
    let (chunks, reader) = read(
        Upstream::Triton,
        Form::Kserve,
        1,
        &[
            r#"{"model_name":"llama","model_version":"1","text_output":"ab","num_input_tokens":7,"num_output_tokens":2}"#,
            r#"{"model_name":"llama","model_version":"1","text_output":["cd"],"num_output_tokens":1,"finish_reason":"stop"}"#,
        ],
    );
    assert_eq!(tokens(&chunks), [Some(2), Some(1)]);
    let said = reader.said;
    assert_eq!((said.model.as_deref(), said.input_tokens, said.output_tokens), (Some("llama"), Some(7), Some(3)));
    let (chunks, reader) =
        read(Upstream::Triton, Form::Kserve, 1, &[r#"{"text_output":"ab"}"#, r#"{"text_output":""}"#]);
    assert_eq!((tokens(&chunks), reader.by()), (vec![None], Counted::Chunks));
}

/// llama.cpp counts with every chunk in its timings, and keeps the cached part of the prompt apart.
#[test]
fn llama_cpp_timings() {
    let (chunks, reader) = read(
        Upstream::LlamaCpp,
        Form::Completion,
        1,
        &[
            r#"{"choices":[{"index":0,"text":"a"}],"timings":{"cache_n":10,"prompt_n":2,"prompt_ms":1.5,"predicted_n":1,"predicted_ms":1.0}}"#,
            r#"{"choices":[{"index":0,"text":"bc"}],"timings":{"cache_n":10,"prompt_n":2,"predicted_n":3}}"#,
        ],
    );
    assert_eq!(tokens(&chunks), [Some(1), Some(2)]);
    let said = reader.said;
    assert_eq!((said.input_tokens, said.cached_tokens, said.output_tokens), (Some(12), Some(10), Some(3)));
}

/// Whole answers of every form.
#[test]
fn whole_answers() {
    for (form, body, expected) in [
        (
            Form::Chat,
            r#"{"choices":[{"index":0,"message":{},"finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":5,"total_tokens":8}}"#,
            (Some(3), Some(5)),
        ),
        (
            Form::Tgi,
            r#"{"generated_text":"x","details":{"finish_reason":"length","generated_tokens":20,"prefill":[{"id":1},{"id":2}]}}"#,
            (Some(2), Some(20)),
        ),
        (Form::Tgi, r#"[{"generated_text":"x"}]"#, (None, None)),
        (Form::Kserve, r#"{"text_output":"x","num_output_tokens":4}"#, (None, Some(4))),
        (Form::Chat, "not JSON", (None, None)),
    ] {
        let mut reader = Reader::new(Upstream::Openai, form, 1);
        reader.whole(body.as_bytes());
        assert_eq!((reader.said.input_tokens, reader.said.output_tokens), expected, "{body}");
    }
}

/// A call to a tool is content: its name comes first, its arguments in pieces.
#[test]
fn calls_to_tools_are_content() {
    let (chunks, _) = read(
        Upstream::Openai,
        Form::Chat,
        1,
        &[
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"look","arguments":""}}]}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"at\":"}}]}}]}"#,
        ],
    );
    assert_eq!(chunks.iter().map(|chunk| chunk.bytes).collect::<Vec<_>>(), [4, 6]);
}

const OTHER: Form = Form::Other { is_chat: true };

/// OpenAI's responses: deltas are chunks, and the last event has the counts.
#[test]
fn responses_are_read() {
    let (chunks, reader) = read(
        Upstream::Vllm,
        OTHER,
        1,
        &[
            r#"{"type":"response.created","response":{"id":"r","model":"m","usage":null}}"#,
            r#"{"type":"response.output_text.delta","delta":"Hel"}"#,
            r#"{"type":"response.function_call_arguments.delta","delta":"{}"}"#,
            r#"{"type":"response.completed","response":{"id":"r","model":"m","error":null,"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},"output_tokens":6}}}"#,
        ],
    );
    assert_eq!(chunks.iter().map(|chunk| (chunk.tokens, chunk.bytes)).collect::<Vec<_>>(), [(None, 3), (None, 2)]);
    assert!(reader.done);
    let said = reader.said;
    assert_eq!((said.id.as_deref(), said.model.as_deref(), said.error), (Some("r"), Some("m"), None));
    assert_eq!((said.input_tokens, said.cached_tokens, said.output_tokens), (Some(9), Some(4), Some(6)));
}

/// Anthropic's messages: the input's count stands at the start, without what came from a cache, the output's at the end.
#[test]
fn messages_are_read() {
    let (chunks, reader) = read(
        Upstream::Vllm,
        OTHER,
        1,
        &[
            r#"{"type":"message_start","message":{"id":"a","model":"m","usage":{"input_tokens":5,"cache_read_input_tokens":20,"cache_creation_input_tokens":1,"output_tokens":1}}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}"#,
            r#"{"type":"message_stop"}"#,
        ],
    );
    assert_eq!((tokens(&chunks), reader.done), (vec![None], true));
    let said = reader.said;
    assert_eq!((said.input_tokens, said.cached_tokens, said.output_tokens), (Some(26), Some(20), Some(3)));
}

/// SGLang's and llama.cpp's own paths say with every chunk how many tokens there were; a whole answer says it once.
#[test]
fn own_paths_of_engines_are_read() {
    let sglang = [
        r#"{"text":"He","meta_info":{"id":"s","prompt_tokens":7,"completion_tokens":1,"cached_tokens":2}}"#,
        r#"{"text":"Hello","meta_info":{"id":"s","prompt_tokens":7,"completion_tokens":4,"cached_tokens":2}}"#,
    ];
    let (chunks, reader) = read(Upstream::Sglang, OTHER, 1, &sglang);
    assert_eq!((tokens(&chunks), reader.by()), (vec![Some(1), Some(3)], Counted::Usage));
    assert_eq!((reader.said.cached_tokens, reader.said.output_tokens), (Some(2), Some(4)));
    let llama = [
        r#"{"content":"He","stop":false,"tokens_predicted":1,"tokens_evaluated":5}"#,
        r#"{"content":"","stop":true,"tokens_predicted":2,"tokens_evaluated":5}"#,
    ];
    let (chunks, reader) = read(Upstream::LlamaCpp, OTHER, 1, &llama);
    assert_eq!((tokens(&chunks), reader.done), (vec![Some(1), Some(1)], true));
    let mut reader = Reader::new(Upstream::Sglang, OTHER, 1);
    reader.whole(sglang[1].as_bytes());
    assert_eq!((reader.by(), reader.said.input_tokens, reader.said.output_tokens), (Counted::Usage, Some(7), Some(4)));
    for other in ["[1]", "7", "no JSON", r#"{"usage":7,"delta":[1],"error":{"message":"broken"}}"#] {
        let mut reader = Reader::new(Upstream::Openai, OTHER, 1);
        assert!(reader.frame(other.as_bytes()).is_empty());
        assert_eq!((reader.said.output_tokens, reader.said.error.is_some()), (None, other.contains("broken")));
    }
}
