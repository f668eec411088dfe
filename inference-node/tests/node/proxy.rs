//! The proxy in front of other engines, and in front of a node of ours.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt;
use inference_node::engine::EngineKind;
use inference_node::proxy::{MeasuredAt, Upstream as Engine};
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::{Value, json};

use crate::upstream::{Script, Upstream};
use crate::world::{PATIENCE, World, attributes, frames, number};

pub(crate) async fn before(
    engine: Engine,
    url: &str,
    change: impl FnOnce(&mut inference_node::proxy::Config),
) -> World {
    World::start(|config| {
        config.engine.kind = EngineKind::Proxy;
        config.engine.proxy.engine = engine;
        config.engine.proxy.upstream = url.to_owned();
        change(&mut config.engine.proxy);
    })
    .await
}

fn chat(stream: bool) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": stream, "max_tokens": 9})
}

fn counts(tokens: &[Span]) -> Vec<(u64, u64)> {
    let mut counts: Vec<_> = tokens
        .iter()
        .map(|span| (number(span, "tokenwatt.token.index"), number(span, "tokenwatt.token.count")))
        .collect();
    counts.sort_unstable();
    counts
}

const VLLM: [&str; 6] = [
    r#"{"id":"c-1","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"usage":{"prompt_tokens":9,"completion_tokens":0,"total_tokens":9}}"#,
    r#"{"id":"c-1","model":"m","choices":[{"index":0,"delta":{"content":"Hé"}}],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}"#,
    r#"{"id":"c-1","model":"m","choices":[{"index":0,"delta":{"content":"llo there"}}],"usage":{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14}}"#,
    r#"{"id":"c-1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":6,"total_tokens":15}}"#,
    r#"{"id":"c-1","model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":6,"total_tokens":15}}"#,
    "[DONE]",
];

/// vLLM and SGLang are asked for usage with every chunk, so that chunks become tokens; the client gets what it asked for, which
/// is nothing of it, in the same words. The trace goes on to the engine.
#[tokio::test]
async fn usage_is_asked_for_and_taken_out_again() {
    for engine in [Engine::Vllm, Engine::Sglang] {
        let (upstream, _left) = Upstream::start(Script::stream(&VLLM)).await;
        let world = before(engine, &upstream.url, |_| {}).await;
        let request = world.client.post(format!("{}/v1/chat/completions", world.url));
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let answer = request.header("traceparent", format!("00-{trace}-b7ad6b7169203331-01")).json(&chat(true)).send();
        let frames = frames(answer.await.unwrap()).await;
        assert_eq!(frames.len(), 4);
        assert!(frames.iter().all(|frame| frame.get("usage").is_none()), "{frames:?}");
        let said: String = frames.iter().filter_map(|frame| frame["choices"][0]["delta"]["content"].as_str()).collect();
        assert_eq!(said, "Héllo there");
        let got = upstream.only();
        assert_eq!(got.path, "/v1/chat/completions");
        let mut asked = chat(true);
        asked["stream_options"] = json!({"include_usage": true, "continuous_usage_stats": true});
        assert_eq!(got.body, asked);

        let received = world.end().await;
        let [call] = &received.named("llm_request")[..] else { panic!("one call") };
        assert_eq!(call.trace_id, hex(trace));
        assert_eq!(call.parent_span_id, hex("b7ad6b7169203331"));
        let parent = got.headers["traceparent"].to_str().unwrap().to_owned();
        assert_eq!(parent.split('-').nth(2).map(hex), Some(call.span_id.clone()));
        let about = attributes(&call.attributes);
        assert_eq!(about["tokenwatt.engine"], if engine == Engine::Vllm { "vllm" } else { "sglang" });
        for (name, value) in [
            ("tokenwatt.measured_at", "gateway"),
            ("gen_ai.request.model", "m"),
            ("gen_ai.response.id", "c-1"),
            ("gen_ai.usage.input_tokens", "9"),
            ("gen_ai.usage.output_tokens", "6"),
            ("gen_ai.response.finish_reasons", "stop"),
            ("gen_ai.request.max_tokens", "9"),
            ("tokenwatt.output_tokens_source", "usage"),
        ] {
            assert_eq!(about[name], value, "{name}");
        }
        assert!(about.contains_key("gen_ai.latency.time_to_first_token") && about.contains_key("tokenwatt.itl_max"));
        assert!(!about.contains_key("gen_ai.latency.time_in_queue"), "nothing waits here");
        let tokens = received.named("token");
        assert_eq!(counts(&tokens), [(0, 1), (1, 4), (5, 1)]);
        assert!(tokens.iter().all(|token| token.parent_span_id == call.span_id && token.trace_id == call.trace_id));
        let device = tokens.iter().any(|token| attributes(&token.attributes).contains_key("tokenwatt.token.device_us"));
        assert!(!device, "what nobody measured is not said");
    }
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// A proxy's own metrics tell what it knows of its calls, under vLLM's names and with the model that answered; its answers and its
/// heartbeat tell how much there is to do, and so do samples where no other tells it.
#[tokio::test]
async fn what_a_proxy_tells_of_its_engine() {
    for (engine, samples) in [(Engine::Openai, true), (Engine::Vllm, false)] {
        let (upstream, _left) = Upstream::start(Script::stream(&VLLM)).await;
        let world = before(engine, &upstream.url, |proxy| proxy.concurrency = 4).await;
        let answer = world.chat(&chat(true)).await;
        assert_eq!(answer.headers()["x-node-load"], "1,0,,4");
        frames(answer).await;
        let mut beats = world.client.get(format!("{}/load", world.url)).send().await.unwrap().bytes_stream();
        assert_eq!(beats.next().await.unwrap().unwrap(), "data: 0,0,,4\n\n");
        drop(beats);
        let name = if engine == Engine::Openai { "openai" } else { "vllm" };
        let labels = format!("{{engine=\"{name}\",model_name=\"m\"}}");
        let lines = [
            format!("vllm:prompt_tokens_total{labels} 9"),
            format!("vllm:generation_tokens_total{labels} 6"),
            format!("vllm:request_success_total{{engine=\"{name}\",finished_reason=\"stop\",model_name=\"m\"}} 1"),
            format!("vllm:time_to_first_token_seconds_count{labels} 1"),
            format!("vllm:e2e_request_latency_seconds_count{labels} 1"),
            format!("vllm:num_requests_running{labels} 0"),
            format!("vllm:num_requests_waiting{labels} 0"),
        ];
        let told = async {
            loop {
                let url = format!("{}/metrics", world.url);
                let page = world.client.get(url).send().await.unwrap().text().await.unwrap();
                if lines.iter().all(|line| page.lines().any(|told| told == line)) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, told).await.expect("all lines are told");
        let received = world.end().await;
        assert_eq!(!received.points("vllm:num_requests_running").is_empty(), samples, "{name}");
        assert!(received.points("tokenwatt.engine.busy_us").is_empty(), "what nobody counted is not told");
    }
}

/// A client that asked for usage at the end gets it there, and there alone.
#[tokio::test]
async fn usage_that_the_client_asked_for() {
    let (upstream, _left) = Upstream::start(Script::stream(&VLLM)).await;
    let world = before(Engine::Vllm, &upstream.url, |_| {}).await;
    let mut body = chat(true);
    body["stream_options"] = json!({"include_usage": true, "other": 1});
    let frames = frames(world.chat(&body).await).await;
    assert_eq!(frames.len(), 5);
    assert!(frames[..4].iter().all(|frame| frame.get("usage").is_none()), "{frames:?}");
    assert_eq!(frames[4]["usage"]["completion_tokens"], 6);
    let asked = json!({"include_usage": true, "continuous_usage_stats": true, "other": 1});
    assert_eq!(upstream.only().body["stream_options"], asked);
    assert_eq!(counts(&world.end().await.named("token")), [(0, 1), (1, 4), (5, 1)]);
}

/// TGI: each event of its own stream is a token, its whole answers are counted in headers, and it names no model.
#[tokio::test]
async fn text_generation_inference() {
    let stream = Script::stream(&[
        r#"{"index":1,"token":{"id":5,"text":"He","logprob":-0.1,"special":false},"generated_text":null,"details":null}"#,
        r#"{"index":2,"token":{"id":6,"text":"y","logprob":-0.1,"special":false},"generated_text":null,"details":null}"#,
        r#"{"index":3,"token":{"id":0,"text":"</s>","logprob":-0.1,"special":true},"generated_text":"Hey","details":{"finish_reason":"eos_token","generated_tokens":3,"seed":null,"input_length":4}}"#,
    ]);
    let (upstream, _left) = Upstream::start(stream).await;
    let world = before(Engine::Tgi, &upstream.url, |proxy| proxy.model = Some("bloom".to_owned())).await;
    let body = json!({"inputs": "hi", "parameters": {"max_new_tokens": 3, "temperature": 0.5}});
    let text = world.post("/generate_stream", &body).await.text().await.unwrap();
    assert!(text.contains("\"generated_text\":\"Hey\"") && !text.contains("[DONE]"), "{text}");
    assert_eq!(upstream.only().body, body, "TGI's own calls pass as they are");
    let received = world.end().await;
    assert_eq!(counts(&received.named("token")), [(0, 1), (1, 1), (2, 1)]);
    let about = attributes(&received.named("llm_request")[0].attributes);
    assert_eq!((about["gen_ai.request.model"].as_str(), about["gen_ai.request.stream"].as_str()), ("bloom", "true"));
    assert_eq!((about["gen_ai.usage.input_tokens"].as_str(), about["gen_ai.usage.output_tokens"].as_str()), ("4", "3"));
    assert_eq!(about["gen_ai.request.max_tokens"], "3");

    let mut whole = Script::whole(r#"{"generated_text":"Hey"}"#);
    whole.headers.extend([("x-prompt-tokens", "4"), ("x-generated-tokens", "3"), ("x-queue-time", "1")]);
    let (upstream, _left) = Upstream::start(whole).await;
    let world = before(Engine::Tgi, &upstream.url, |_| {}).await;
    let answer = world.post("/generate", &body).await;
    assert_eq!(answer.headers()["x-queue-time"], "1", "the engine's headers pass");
    assert_eq!(answer.json::<Value>().await.unwrap(), json!({"generated_text": "Hey"}));
    let received = world.end().await;
    let about = attributes(&received.named("llm_request")[0].attributes);
    assert_eq!((about["gen_ai.usage.input_tokens"].as_str(), about["gen_ai.usage.output_tokens"].as_str()), ("4", "3"));
    assert!(!about.contains_key("gen_ai.latency.time_to_first_token"), "nobody saw a first token");
    assert_eq!(received.named("token").len(), 0);
}

/// Triton's generate extension: the path names the model, chunks without counts are chunks, and an error can come within an
/// answer that began well.
#[tokio::test]
async fn triton_generate() {
    let stream = Script::stream(&[
        r#"{"model_name":"llama","model_version":"1","text_output":"Hello"}"#,
        r#"{"model_name":"llama","model_version":"1","text_output":" there"}"#,
        r#"{"error":"request was cancelled"}"#,
    ]);
    let (upstream, _left) = Upstream::start(stream).await;
    let world = before(Engine::Triton, &upstream.url, |proxy| proxy.measured_at = MeasuredAt::Server).await;
    let body = json!({"text_input": "hi", "stream": true, "sampling_parameters": "{}"});
    let text = world.post("/v2/models/llama/generate_stream", &body).await.text().await.unwrap();
    assert_eq!(text.matches("data: ").count(), 3);
    let received = world.end().await;
    assert_eq!(counts(&received.named("token")), [(0, 1), (1, 1)]);
    let about = attributes(&received.named("llm_request")[0].attributes);
    assert_eq!((about["gen_ai.request.model"].as_str(), about["tokenwatt.measured_at"].as_str()), ("llama", "server"));
    assert_eq!(
        (about["error.type"].as_str(), about["tokenwatt.output_tokens_source"].as_str()),
        ("engine_error", "chunks")
    );
}

/// llama.cpp is asked for timings with every chunk, which count its tokens.
#[tokio::test]
async fn llama_cpp_server() {
    let stream = Script::stream(&[
        r#"{"choices":[{"index":0,"text":"Hel"}],"timings":{"cache_n":3,"prompt_n":2,"predicted_n":1}}"#,
        r#"{"choices":[{"index":0,"text":"lo there"}],"timings":{"cache_n":3,"prompt_n":2,"predicted_n":4}}"#,
        r#"{"choices":[{"index":0,"text":"","finish_reason":"length"}],"timings":{"cache_n":3,"prompt_n":2,"predicted_n":4}}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":4,"total_tokens":9},"timings":{"predicted_n":4}}"#,
        "[DONE]",
    ]);
    let (upstream, _left) = Upstream::start(stream).await;
    let world = before(Engine::LlamaCpp, &upstream.url, |_| {}).await;
    let answer = world.post("/v1/completions", &json!({"prompt": "hi", "stream": true})).await;
    let frames = frames(answer).await;
    assert_eq!(frames.len(), 3);
    assert!(frames.iter().all(|frame| frame.get("usage").is_none() && frame.get("timings").is_none()), "{frames:?}");
    let got = upstream.only().body;
    assert_eq!((&got["timings_per_token"], &got["stream_options"]), (&json!(true), &json!({"include_usage": true})));
    let received = world.end().await;
    assert_eq!(counts(&received.named("token")), [(0, 1), (1, 3)]);
    let about = attributes(&received.named("llm_request")[0].attributes);
    assert_eq!(about["gen_ai.usage.input_tokens"], "5");
    assert_eq!(about["gen_ai.operation.name"], "text_completion");
}

/// Text Generation WebUI says only at the end how many tokens there were: its chunks share them by their length, to the last
/// one. It takes one call at a time; the proxy makes the others wait, and says how long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_generation_webui_takes_turns() {
    let stream = Script::stream(&[
        r#"{"choices":[{"index":0,"delta":{"content":"abcdefgh"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"ab"}}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":10,"total_tokens":15}}"#,
        "[DONE]",
    ]);
    let (upstream, _left) = Upstream::start(stream.then_wait()).await;
    let world = before(Engine::TextGenerationWebui, &upstream.url, |proxy| proxy.concurrency = 1).await;
    let calls = (0..3).map(|_| async {
        let answer = world.chat(&chat(true)).await;
        upstream.go_on();
        frames(answer).await
    });
    for frames in futures::future::join_all(calls).await {
        assert_eq!(frames.len(), 2);
    }
    assert_eq!(upstream.together.load(Ordering::SeqCst), 1, "one call at a time");
    let received = world.end().await;
    let calls = received.named("llm_request");
    assert_eq!(calls.len(), 3);
    for call in &calls {
        let about = attributes(&call.attributes);
        assert!(about.contains_key("gen_ai.latency.time_in_queue"));
        assert_eq!(about["tokenwatt.output_tokens_source"], "usage");
        let tokens: Vec<Span> =
            received.named("token").into_iter().filter(|token| token.parent_span_id == call.span_id).collect();
        assert_eq!(counts(&tokens), [(0, 8), (8, 2)]);
    }
}

/// Paths that generate beside OpenAI's two wait for their turn and are recorded as well: what their answers share is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_generating_paths_are_followed() {
    let stream = Script::stream(&[
        r#"{"type":"message_start","message":{"id":"msg","model":"claude","usage":{"input_tokens":5,"output_tokens":1}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}"#,
        r#"{"type":"message_stop"}"#,
    ]);
    let (upstream, _left) = Upstream::start(stream.then_wait()).await;
    let world = before(Engine::Vllm, &upstream.url, |proxy| proxy.concurrency = 1).await;
    let body = json!({"model": "m", "messages": [], "max_tokens": 9, "stream": true});
    let calls = ["/v1/messages", "/invocations"].map(|path| {
        let (world, upstream, body) = (&world, &upstream, &body);
        async move {
            let answer = world.post(path, body).await;
            upstream.go_on();
            assert_eq!(answer.text().await.unwrap().matches("data: ").count(), 4);
        }
    });
    futures::future::join_all(calls).await;
    assert_eq!(upstream.together.load(Ordering::SeqCst), 1, "one call at a time");
    assert!(upstream.got.lock().iter().all(|got| got.body == body), "nothing is added");
    let received = world.end().await;
    let calls = received.named("llm_request");
    assert_eq!(calls.len(), 2);
    for call in &calls {
        let about = attributes(&call.attributes);
        for (name, value) in [
            ("gen_ai.request.model", "m"),
            ("gen_ai.response.id", "msg"),
            ("gen_ai.request.max_tokens", "9"),
            ("gen_ai.usage.input_tokens", "5"),
            ("gen_ai.usage.output_tokens", "3"),
            ("tokenwatt.output_tokens_source", "usage"),
        ] {
            assert_eq!(about[name], value, "{name}");
        }
        assert!(about.contains_key("gen_ai.latency.time_to_first_token"));
        assert!(about.contains_key("gen_ai.latency.time_in_queue"));
    }
    let tokens = received.named("token");
    assert_eq!(tokens.iter().map(|token| number(token, "tokenwatt.token.count")).collect::<Vec<_>>(), [3, 3]);
}

/// The first part of a call to a tool is content: it has a time to first token.
#[tokio::test]
async fn calls_to_tools_have_a_first_token() {
    let stream = Script::stream(&[
        r#"{"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}"#,
        r#"{"id":"c","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t","type":"function","function":{"name":"look","arguments":""}}]}}]}"#,
        r#"{"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
        "[DONE]",
    ]);
    let (upstream, _left) = Upstream::start(stream).await;
    let world = before(Engine::Openai, &upstream.url, |_| {}).await;
    assert_eq!(frames(world.chat(&chat(true)).await).await.len(), 3);
    let received = world.end().await;
    let about = attributes(&received.named("llm_request")[0].attributes);
    assert!(about.contains_key("gen_ai.latency.time_to_first_token"));
    assert_eq!(about["gen_ai.response.finish_reasons"], "tool_calls");
}

/// A client that goes away ends the engine's work, and what it got until then is recorded.
#[tokio::test]
async fn client_that_goes_away() {
    let (upstream, mut left) = Upstream::start(Script::stream(&VLLM[..3]).then_wait()).await;
    let world = before(Engine::Vllm, &upstream.url, |_| {}).await;
    let mut body = world.chat(&chat(true)).await.bytes_stream();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("llo there") {
        seen.extend(body.next().await.unwrap().unwrap());
    }
    drop(body);
    tokio::time::timeout(PATIENCE, left.recv()).await.unwrap().unwrap();
    let received = world.end().await;
    let about = attributes(&received.named("llm_request")[0].attributes);
    assert_eq!((about["error.type"].as_str(), about["gen_ai.usage.output_tokens"].as_str()), ("cancelled", "5"));
    assert_eq!(counts(&received.named("token")), [(0, 1), (1, 4)]);
}

/// An engine that is not there, one that refuses, one that breaks off and one that falls silent: the client is told each time,
/// nobody takes half an answer for a whole one, and each call is recorded with what it was.
#[tokio::test]
async fn engines_that_fail() {
    let broken = Script { breaks: true, ..Script::stream(&VLLM[..2]).then_wait() };
    let refused = Script { status: 429, ..Script::whole(r#"{"error":{"message":"slow down"}}"#) };
    for (script, status, kind) in [
        (None, 502, "upstream_unreachable"),
        (Some(refused), 429, "rate_limited"),
        (Some(broken), 200, "upstream_unreachable"),
        (Some(Script::stream(&VLLM[..2]).then_wait()), 200, "timeout"),
    ] {
        let mut running = None;
        let url = match script {
            Some(script) => {
                let (upstream, left) = Upstream::start(script).await;
                running.insert((upstream, left)).0.url.clone()
            }
            None => "http://127.0.0.1:9".to_owned(),
        };
        let short = |proxy: &mut inference_node::proxy::Config| proxy.idle_timeout = Duration::from_millis(300);
        let world = before(Engine::Vllm, &url, short).await;
        let answer = world.chat(&chat(true)).await;
        assert_eq!(answer.status().as_u16(), status, "{kind}");
        if let (Some((upstream, _)), "upstream_unreachable") = (&running, kind) {
            upstream.go_on();
        }
        let text = answer.text().await.unwrap();
        assert!(text.contains("\"error\"") && !text.contains("[DONE]"), "{kind}: {text}");
        let received = world.end().await;
        let calls = received.named("llm_request");
        assert_eq!(calls.len(), 1, "{kind}");
        assert_eq!(attributes(&calls[0].attributes)["error.type"], kind);
    }
}

/// Calls that make no tokens pass, and are not recorded; our own paths stay ours.
#[tokio::test]
async fn other_paths_pass() {
    let (upstream, _left) = Upstream::start(Script::whole(r#"{"object":"list"}"#)).await;
    let world = before(Engine::Vllm, &upstream.url, |_| {}).await;
    let get = |path: &str| world.client.get(format!("{}{path}", world.url)).send();
    assert_eq!(get("/v1/models?x=1").await.unwrap().json::<Value>().await.unwrap(), json!({"object": "list"}));
    assert_eq!(get("/readyz").await.unwrap().status(), 200);
    let metrics = get("/metrics").await.unwrap().text().await.unwrap();
    assert!(metrics.contains("vllm:num_requests_running{engine=\"vllm\"} 0"), "{metrics}");
    assert_eq!(upstream.only().path, "/v1/models");
    assert_eq!(world.end().await.spans().len(), 0);
}

/// In front of a node of ours a call is seen at both places, the node's span under the proxy's in one trace, and its tokens are
/// told by the node alone; so views count it once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_front_of_a_node() {
    let node = World::start(|_| {}).await;
    let world = before(Engine::Tokenwatt, &node.url, |_| {}).await;
    let streamed = frames(world.chat(&World::chat_body(12, true)).await).await;
    assert!(streamed.iter().all(|frame| frame.get("usage").is_none()), "nobody asked for usage");
    let whole: Value = world.chat(&World::chat_body(7, false)).await.json().await.unwrap();
    assert_eq!(whole["usage"]["completion_tokens"], 7);
    let (outside, inside) = (world.end().await, node.end().await);
    let (calls, nearer) = (outside.named("llm_request"), inside.named("llm_request"));
    assert_eq!((calls.len(), nearer.len()), (2, 2));
    for call in &calls {
        let own = nearer.iter().find(|own| own.parent_span_id == call.span_id).unwrap();
        assert_eq!(own.trace_id, call.trace_id);
        assert!(
            own.start_time_unix_nano >= call.start_time_unix_nano && own.end_time_unix_nano <= call.end_time_unix_nano
        );
        let (outer, inner) = (attributes(&call.attributes), attributes(&own.attributes));
        assert_eq!(outer["gen_ai.usage.output_tokens"], inner["gen_ai.usage.output_tokens"]);
        assert_eq!((outer["tokenwatt.measured_at"].as_str(), inner.get("tokenwatt.measured_at")), ("gateway", None));
        assert_eq!(outer["tokenwatt.token_sampling"], "0");
    }
    assert_eq!((outside.named("token").len(), inside.named("token").len()), (0, 19));
}

/// A list of prompts shares one usage: it says how many tokens there were in all, and of no chunk how many it has.
#[tokio::test]
async fn several_prompts_share_their_usage() {
    let frame = |index: u32, text: &str, so_far: u32| {
        json!({"choices": [{"index": index, "text": text}], "usage": {"prompt_tokens": 4, "completion_tokens": so_far, "total_tokens": so_far + 4}})
            .to_string()
    };
    let frames_of = [frame(0, "ab", 2), frame(1, "cd", 2), "[DONE]".to_owned()];
    let (upstream, _left) = Upstream::start(Script::stream(&frames_of.each_ref().map(String::as_str))).await;
    let world = before(Engine::Vllm, &upstream.url, |_| {}).await;
    let request = world.client.post(format!("{}/v1/completions", world.url)).header("accept-encoding", "gzip");
    let answer = request.json(&json!({"prompt": ["a", "b"], "stream": true})).send().await.unwrap();
    assert!(frames(answer).await.iter().all(|frame| frame.get("usage").is_none()));
    assert!(
        !upstream.only().headers.contains_key("accept-encoding"),
        "nothing can be taken out of a compressed answer"
    );
    let received = world.end().await;
    let tokens: u64 = received.named("token").iter().map(|token| number(token, "tokenwatt.token.count")).sum();
    assert_eq!((received.named("token").len(), tokens), (2, 2));
}
