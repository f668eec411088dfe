//! What the proxy costs a call: the same calls to an engine directly and through the proxy, one after the other, in turns.
//!
//! The engine here is a server that writes all chunks of its answer at once, so that nothing but the way is measured.

use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::post;
use inference_node::engine::{self, EngineKind};
use inference_node::proxy;
use serde_json::{Value, json};
use service::Deps;
use service::error::{Error, Result};
use tokio::net::TcpListener;

/// Calls of each kind, and how many of them are not counted.
const CALLS: usize = 600;
const WARM_UP: usize = 50;
/// Chunks of the shorter and of the longer answer: what lies between them is the cost of chunks.
const CHUNKS: [usize; 2] = [20, 220];
/// Longest time that the proxy may take to end.
const ENDING: Duration = Duration::from_secs(60);

/// Measures both ways.
///
/// # Errors
/// If a server cannot be started or a call fails.
pub(super) async fn measure() -> Result<Value> {
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|error| failed("start an engine", error))?;
    let engine = format!("http://{}", listener.local_addr().map_err(|error| failed("start an engine", error))?);
    let router = CHUNKS.iter().fold(Router::new(), |router, chunks| {
        let (path, body) = (format!("/{chunks}/v1/chat/completions"), answer(*chunks));
        router.route(&path, post(move || async move { ([("content-type", "text/event-stream")], body) }))
    });
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    let mut figures = json!({});
    let mut added = Vec::new();
    for chunks in CHUNKS {
        let (direct, through) = both(&format!("{engine}/{chunks}")).await?;
        let more = |share: f64| (at(&through, share) - at(&direct, share)) * 1e3;
        figures[format!("added_ms_p50_of_{chunks}_chunks")] = json!(super::round(more(0.5)));
        figures[format!("added_ms_p99_of_{chunks}_chunks")] = json!(super::round(more(0.99)));
        added.push(more(0.5));
    }
    let per_chunk = (added[1] - added[0]) / (CHUNKS[1] - CHUNKS[0]) as f64;
    figures["added_us_per_chunk"] = json!(super::round(per_chunk * 1e3));
    serving.abort();
    Ok(figures)
}

fn failed(what: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::internal(what.to_owned()).with_source(error)
}

/// An answer as vLLM streams it.
fn answer(chunks: usize) -> String {
    let chunk = |at: usize| {
        let choice = json!({"index": 0, "delta": {"content": " word"}, "finish_reason": null, "logprobs": null});
        let usage = json!({"prompt_tokens": 9, "completion_tokens": at + 1, "total_tokens": at + 10});
        format!(
            "data: {}\n\n",
            json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], "usage": usage})
        )
    };
    (0..chunks).map(chunk).chain(["data: [DONE]\n\n".to_owned()]).collect()
}

/// Seconds of each call, directly and through a proxy, sorted.
async fn both(engine: &str) -> Result<(Vec<f64>, Vec<f64>)> {
    let settings =
        proxy::Config { upstream: engine.to_owned(), engine: proxy::Upstream::Vllm, ..proxy::Config::default() };
    let engine_of = engine::Config { kind: EngineKind::Proxy, proxy: settings, ..engine::Config::default() };
    let mut config = inference_node::Config { engine: engine_of, ..inference_node::Config::default() };
    config.http_addr.set_port(0);
    // Nobody takes the spans here: they are built, kept as long as there is room, and dropped.
    config.otlp_endpoint = "http://127.0.0.1:9".to_owned();
    config.record.give_up_after = Duration::from_millis(100);
    let deps = Deps::system();
    let node = inference_node::build(config, deps.clone()).await?;
    let proxy = format!("http://{}", node.http_addr());
    let running = tokio::spawn(node.run());
    let client = reqwest::Client::new();
    let (mut direct, mut through) = (Vec::new(), Vec::new());
    for turn in 0..CALLS + WARM_UP {
        for (base, seconds) in [(engine, &mut direct), (proxy.as_str(), &mut through)] {
            let took = call(&client, base).await?;
            if turn >= WARM_UP {
                seconds.push(took);
            }
        }
    }
    deps.shutdown.walk(ENDING).await;
    running.await.map_err(|error| failed("the proxy broke", error))??;
    direct.sort_by(f64::total_cmp);
    through.sort_by(f64::total_cmp);
    Ok((direct, through))
}

/// Seconds from the request to the last byte of its answer.
async fn call(client: &reqwest::Client, base: &str) -> Result<f64> {
    let begun = Instant::now();
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": true});
    let sent = client.post(format!("{base}/v1/chat/completions")).json(&body).send().await;
    let answer = sent.and_then(reqwest::Response::error_for_status).map_err(|error| failed("a call failed", error))?;
    answer.bytes().await.map_err(|error| failed("a call broke off", error))?;
    Ok(begun.elapsed().as_secs_f64())
}

fn at(sorted: &[f64], share: f64) -> f64 {
    let place = (share * sorted.len() as f64) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}
