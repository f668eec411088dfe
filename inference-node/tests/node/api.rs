//! What clients of the API see.

use futures::StreamExt;
use serde_json::{Value, json};

use crate::world::{PATIENCE, World, first_text, frames};

/// A stream begins with the role, carries text, ends with the reason, the usage and the closing
/// mark; the same call in one piece has the same text.
#[tokio::test]
async fn stream_and_whole_agree() {
    let world = World::start(|_| {}).await;
    let mut body = World::chat_body(12, true);
    body["stream_options"] = json!({"include_usage": true});
    let frames = frames(world.chat(&body).await).await;
    let first = &frames[0]["choices"][0]["delta"];
    assert_eq!((&first["role"], &first["content"]), (&json!("assistant"), &json!("")));
    let (usage, chunks) = frames.split_last().unwrap();
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(usage["usage"]["completion_tokens"], 12);
    assert!(chunks.iter().all(|chunk| chunk["usage"].is_null() && chunk["object"] == "chat.completion.chunk"));
    assert!(frames.iter().all(|frame| frame["id"] == frames[0]["id"]));
    let last = &chunks.last().unwrap()["choices"][0];
    assert_eq!((&last["finish_reason"], &last["delta"]), (&json!("length"), &json!({})));
    let text: String = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();

    let whole: Value = world.chat(&World::chat_body(12, false)).await.json().await.unwrap();
    assert_eq!(whole["choices"][0]["message"], json!({"role": "assistant", "content": text}));
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    assert_eq!(whole["usage"], usage["usage"]);
    assert!(text.split_whitespace().count() >= 8, "{text}");
    world.end().await;
}

/// Text completions stream too, and several choices keep their own index and text.
#[tokio::test]
async fn completions_with_choices() {
    let world = World::start(|_| {}).await;
    let body = json!({"model": "Llama-3-8B", "prompt": "Once", "n": 2, "max_tokens": 6, "seed": 1, "ignore_eos": true});
    let whole: Value = world.post("/v1/completions", &body).await.json().await.unwrap();
    let text = |index: usize| whole["choices"][index]["text"].as_str().unwrap().to_owned();
    assert_eq!(
        (whole["object"].as_str(), whole["usage"]["completion_tokens"].as_u64()),
        (Some("text_completion"), Some(12))
    );
    assert_eq!(whole["usage"]["prompt_tokens"], 1);
    assert_ne!(text(0), text(1));
    let mut streamed = body.clone();
    streamed["stream"] = json!(true);
    let mut texts = [String::new(), String::new()];
    for frame in frames(world.post("/v1/completions", &streamed).await).await {
        let choice = &frame["choices"][0];
        texts[choice["index"].as_u64().unwrap() as usize].push_str(choice["text"].as_str().unwrap());
    }
    assert_eq!(texts, [text(0), text(1)]);
    world.end().await;
}

/// A stop text ends the answer and is not part of it.
#[tokio::test]
async fn stop_texts() {
    let world = World::start(|_| {}).await;
    let whole: Value = world.chat(&World::chat_body(30, false)).await.json().await.unwrap();
    let text = whole["choices"][0]["message"]["content"].as_str().unwrap();
    let stop = text.split_whitespace().nth(3).unwrap();
    let mut body = World::chat_body(30, false);
    body["stop"] = json!(stop);
    let cut: Value = world.chat(&body).await.json().await.unwrap();
    assert_eq!(cut["choices"][0]["finish_reason"], "stop");
    assert_eq!(cut["choices"][0]["message"]["content"], text.split(stop).next().unwrap());
    assert!(cut["usage"]["completion_tokens"].as_u64() < whole["usage"]["completion_tokens"].as_u64());
    world.end().await;
}

/// Whatever is wrong is said in OpenAI's shape, with the field and a code.
#[tokio::test]
async fn faults() {
    let world = World::start(|_| {}).await;
    let chat = |change: Value| {
        let mut body = World::chat_body(3, false);
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        body
    };
    for (body, status, param, code) in [
        (chat(json!({"model": "gpt"})), 404, "model", "model_not_found"),
        (chat(json!({"messages": []})), 400, "messages", ""),
        (chat(json!({"max_tokens": 5000})), 400, "messages", "context_length_exceeded"),
        (chat(json!({"temperature": 3})), 400, "temperature", ""),
        (chat(json!({"n": 0})), 400, "n", ""),
        (chat(json!({"stop": ["a", "b", "c", "d", "e"]})), 400, "stop", ""),
        (chat(json!({"tools": [{"type": "function"}]})), 400, "tools", "unsupported_parameter"),
        (chat(json!({"logprobs": true})), 400, "logprobs", "unsupported_parameter"),
        (chat(json!({"logit_bias": {"5": 1}})), 400, "logit_bias", "unsupported_parameter"),
        (chat(json!({"logit_bias": {"5": 200}})), 400, "logit_bias", ""),
        (chat(json!({"response_format": {"type": "json_object"}})), 400, "response_format", "unsupported_parameter"),
        (
            chat(json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})),
            400,
            "messages",
            "unsupported_parameter",
        ),
    ] {
        let response = world.chat(&body).await;
        assert_eq!(response.status(), status, "{body}");
        let fault: Value = response.json().await.unwrap();
        let error = &fault["error"];
        assert_eq!(error["param"], param, "{fault}");
        assert_eq!(error["code"].as_str().unwrap_or_default(), code, "{fault}");
        assert!(!error["message"].as_str().unwrap().is_empty() && error["type"].is_string());
    }
    let raw = |text: &'static str| world.client.post(format!("{}/v1/chat/completions", world.url)).body(text).send();
    assert_eq!(raw("{\"messages\": [").await.unwrap().status(), 400);
    assert_eq!(raw("[1]").await.unwrap().status(), 400);
    let huge = world.client.post(format!("{}/v1/chat/completions", world.url)).body(vec![b' '; 9 << 20]).send().await;
    // The server may close the connection before it has read all of a body that is too large.
    assert!(huge.is_err() || huge.unwrap().status() == 413);
    let embeddings: Value =
        world.post("/v1/embeddings", &json!({"model": "Llama-3-8B", "input": "x"})).await.json().await.unwrap();
    assert_eq!(embeddings["error"]["code"], "unsupported_endpoint");
    assert!(embeddings["error"]["message"].as_str().unwrap().starts_with("embeddings are not supported"));
    let missing = world.client.get(format!("{}/v2/x", world.url)).send().await.unwrap();
    assert_eq!(
        (missing.status().as_u16(), missing.json::<Value>().await.unwrap()["error"]["type"].is_string()),
        (404, true)
    );
    assert!(
        world
            .chat(&chat(json!({"unknown_field": {"a": 1}, "tools": [], "logprobs": false})))
            .await
            .status()
            .is_success()
    );
    world.end().await;
}

/// The model list names the model, its context and what it is calibrated on.
#[tokio::test]
async fn models_and_health() {
    let world = World::start(|_| {}).await;
    let get = |path: &'static str| world.client.get(format!("{}{path}", world.url)).send();
    let list: Value = get("/v1/models").await.unwrap().json().await.unwrap();
    assert_eq!((&list["data"][0]["id"], &list["data"][0]["max_model_len"]), (&json!("Llama-3-8B"), &json!(4096)));
    assert!(list["data"][0]["simulated"].as_str().unwrap().contains("mean error"));
    assert_eq!(get("/v1/models/Llama-3-8B").await.unwrap().status(), 200);
    assert_eq!(get("/v1/models/other").await.unwrap().status(), 404);
    for path in ["/health", "/healthz", "/readyz"] {
        assert_eq!(get(path).await.unwrap().status(), 200, "{path}");
    }
    let metrics = get("/metrics").await.unwrap().text().await.unwrap();
    assert!(metrics.contains("vllm:num_requests_running{"), "{metrics}");
    assert!(metrics.contains("tokenwatt_node_spans_lost_total 0"), "{metrics}");
    world.end().await;
}

/// Existing dashboards find what they draw: vLLM's names, with figures that agree with the usage.
#[tokio::test]
async fn metrics_have_the_names_of_vllm() {
    let world = World::start(|_| {}).await;
    for tokens in [1, 6] {
        world.chat(&World::chat_body(tokens, false)).await.text().await.unwrap();
    }
    let labels = "model_name=\"Llama-3-8B\"";
    let page =
        || async { world.client.get(format!("{}/metrics", world.url)).send().await.unwrap().text().await.unwrap() };
    let value = |page: &str, name: &str, more: &str| -> f64 {
        let mut lines = page.lines().filter(|line| line.starts_with(&format!("{name}{{")) && line.contains(labels));
        let line = lines.find(|line| line.contains(more)).unwrap_or_else(|| panic!("{name} is not in {page}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    // The recorder counts a call, and the step thread frees its place, a moment after its answer.
    let counted = async {
        loop {
            let page = page().await;
            let gone = ["vllm:num_requests_running", "vllm:kv_cache_usage_perc"].map(|name| value(&page, name, ""));
            if value(&page, "vllm:request_success_total", "\"length\"") >= 2.0 && gone == [0.0, 0.0] {
                return page;
            }
        }
    };
    let page = tokio::time::timeout(PATIENCE, counted).await.unwrap();
    for (name, expected) in [
        ("vllm:generation_tokens_total", 7.0),
        ("vllm:request_generation_tokens_sum", 7.0),
        ("vllm:request_params_max_tokens_sum", 7.0),
        ("vllm:inter_token_latency_seconds_count", 5.0),
        ("vllm:time_per_output_token_seconds_count", 5.0),
        ("vllm:time_to_first_token_seconds_count", 2.0),
        ("vllm:e2e_request_latency_seconds_count", 2.0),
        ("vllm:request_queue_time_seconds_count", 2.0),
        ("vllm:request_prefill_time_seconds_count", 2.0),
        ("vllm:request_decode_time_seconds_count", 2.0),
        ("vllm:num_requests_running", 0.0),
        ("vllm:num_requests_waiting", 0.0),
        ("vllm:kv_cache_usage_perc", 0.0),
        ("vllm:gpu_cache_usage_perc", 0.0),
        ("vllm:num_preemptions_total", 0.0),
    ] {
        assert_eq!(value(&page, name, ""), expected, "{name}");
    }
    assert!(value(&page, "vllm:time_to_first_token_seconds_sum", "") > 0.0);
    assert_eq!(value(&page, "vllm:prompt_tokens_total", ""), value(&page, "vllm:request_prompt_tokens_sum", ""));
    world.end().await;
}

/// The heartbeat tells the load without being asked again, and ends when the node takes no more calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeat_for_gateways() {
    let world = World::start(|config| config.engine.sim.slots = 4).await;
    let response = world.client.get(format!("{}/load", world.url)).send().await.unwrap();
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("text/event-stream"));
    let call = first_text(world.chat(&World::chat_body(3000, true)).await).await;
    let mut beats = response.bytes_stream();
    let mut seen = String::new();
    let busy = async {
        while !seen.ends_with("data: 1,0,0.250,4\n\n") {
            seen.push_str(std::str::from_utf8(&beats.next().await.unwrap().unwrap()).unwrap());
        }
    };
    tokio::time::timeout(PATIENCE, busy).await.expect("a beat tells of the call");
    drop(call);
    let ending = tokio::spawn(async move { while beats.next().await.is_some_and(|beat| beat.is_ok()) {} });
    world.end().await;
    tokio::time::timeout(PATIENCE, ending).await.expect("the heartbeat ends").unwrap();
}

/// A client that goes away before its answer frees its slot too, though nothing is streamed to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn departed_client_of_a_whole_answer() {
    let world = World::start(|config| {
        config.queue_max = 0;
        config.engine.sim.slots = 1;
    })
    .await;
    let body = World::chat_body(4000, false);
    let request = world.client.post(format!("{}/v1/chat/completions", world.url)).json(&body);
    let running = async {
        loop {
            let page = world.client.get(format!("{}/metrics", world.url)).send().await.unwrap().text().await.unwrap();
            if page.lines().any(|line| line.starts_with("vllm:num_requests_running{") && line.ends_with(" 1")) {
                return;
            }
        }
    };
    tokio::select! {
        answer = request.send() => panic!("{answer:?}"),
        () = running => {}
    }
    // The request's future is gone, and its connection with it.
    let next = async {
        while world.chat(&World::chat_body(1, false)).await.status() == 429 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, next).await.expect("the slot is free again");
    let received = world.end().await;
    let reasons: Vec<String> = received
        .named("llm_request")
        .iter()
        .map(|span| crate::world::attributes(&span.attributes)["gen_ai.response.finish_reasons"].clone())
        .collect();
    assert!(reasons.contains(&"abort".to_owned()), "{reasons:?}");
}

/// With all slots and places taken the next call gets 429 at once; the place of a client that goes
/// away is free again.
#[tokio::test]
async fn full_node_and_departed_client() {
    let world = World::start(|config| {
        config.queue_max = 0;
        config.engine.sim.slots = 1;
    })
    .await;
    let stream = first_text(world.chat(&World::chat_body(4000, true)).await).await;
    let refused = world.chat(&World::chat_body(1, false)).await;
    assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].to_str().unwrap()), (429, "1"));
    assert_eq!(refused.headers()["x-node-load"], "1,0,1.000,1");
    drop(stream);
    let next = async {
        while world.chat(&World::chat_body(1, false)).await.status() == 429 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, next).await.expect("the slot is free again");
    let received = world.end().await;
    let calls = received.named("llm_request");
    let aborted: Vec<_> = calls
        .iter()
        .filter(|span| crate::world::attributes(&span.attributes)["gen_ai.response.finish_reasons"] == "abort")
        .collect();
    assert_eq!(aborted.len(), 1);
    let sent = crate::world::number(aborted[0], "gen_ai.usage.output_tokens");
    assert!((2..4000).contains(&sent), "{sent}");
}
