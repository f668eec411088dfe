//! What the telemetry says adds up.

use std::collections::HashMap;

use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::{Value, json};

use crate::world::{Received, World, attributes, frames, number};

fn tokens_of<'a>(tokens: &'a [Span], call: &Span) -> Vec<&'a Span> {
    let mut own: Vec<_> = tokens.iter().filter(|token| token.parent_span_id == call.span_id).collect();
    own.sort_by_key(|token| (number(token, "tokenwatt.token.choice"), number(token, "tokenwatt.token.index")));
    own
}

/// One span a token, in the caller's trace, without gaps between them; sums equal the usage and
/// the call's totals.
#[tokio::test]
async fn tokens_tell_the_whole_call() {
    let world = World::start(|config| {
        config.identity.region = Some("eu-west-1".to_owned());
        config.identity.host_type = Some("inf2.48xlarge".to_owned());
        config.identity.instance = Some("replica-1".to_owned());
    })
    .await;
    let request = world
        .client
        .post(format!("{}/v1/chat/completions", world.url))
        .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .json(&World::chat_body(9, true));
    frames(request.send().await.unwrap()).await;
    let received = world.end().await;

    let resource = received.resource();
    for (key, value) in [
        ("service.instance.id", "replica-1"),
        ("cloud.region", "eu-west-1"),
        ("host.type", "inf2.48xlarge"),
        ("tokenwatt.chips", "12"),
    ] {
        assert_eq!(resource[key], value);
    }
    assert!(!resource.contains_key("host.id"), "what is not known is not sent");
    let calls = received.named("llm_request");
    let [call] = calls.as_slice() else { panic!("one call, {} spans", calls.len()) };
    assert_eq!(call.kind, SpanKind::Server as i32);
    assert_eq!((call.trace_id.len(), call.parent_span_id.as_slice()), (16, &0xb7ad6b7169203331u64.to_be_bytes()[..]));
    assert_eq!(call.trace_id, 0x0af7651916cd43dd8448eb211c80319cu128.to_be_bytes());
    let about = attributes(&call.attributes);
    assert_eq!((about["gen_ai.usage.output_tokens"].as_str(), about["tokenwatt.quantization"].as_str()), ("9", "int8"));
    let tokens = received.named("token");
    let own = tokens_of(&tokens, call);
    assert_eq!(own.len(), 9);
    let mut left = call.start_time_unix_nano;
    for (index, token) in own.iter().enumerate() {
        assert_eq!(number(token, "tokenwatt.token.index"), index as u64);
        assert_eq!((token.start_time_unix_nano, &token.trace_id), (left, &call.trace_id));
        assert_eq!(
            attributes(&token.attributes)["tokenwatt.token.stall"],
            if index == 0 { "prefill" } else { "decode" }
        );
        left = token.end_time_unix_nano;
    }
    assert_eq!(left, call.end_time_unix_nano);
    let sum: u64 = own.iter().map(|token| number(token, "tokenwatt.token.device_us")).sum();
    assert_eq!(sum, number(call, "tokenwatt.device_us.prefill") + number(call, "tokenwatt.device_us.decode"));
    let ttft: f64 = about["gen_ai.latency.time_to_first_token"].parse().unwrap();
    let first = own[0].end_time_unix_nano - call.start_time_unix_nano;
    assert!((ttft - first as f64 / 1e9).abs() < 1e-9);
}

/// Tokens, padding and idle between two samples are the time between them, to the microsecond.
fn windows_add_up(received: &Received) -> usize {
    let tokens: Vec<(u64, u64)> = received
        .named("token")
        .iter()
        .map(|token| (token.end_time_unix_nano / 1_000, number(token, "tokenwatt.token.device_us")))
        .collect();
    let padding: HashMap<u64, f64> =
        received.points("tokenwatt.engine.padding_us").into_iter().map(|(time, value, _)| (time, value)).collect();
    let samples = received.points("tokenwatt.engine.busy_us");
    for pair in samples.windows(2) {
        let ((from, busy_before, _), (until, busy, _)) = (&pair[0], &pair[1]);
        let (from_us, until_us) = (from / 1_000, until / 1_000);
        assert!(from_us < until_us);
        let given: u64 = tokens.iter().filter(|(time, _)| *time > from_us && *time <= until_us).map(|(_, us)| us).sum();
        assert_eq!(given as f64, busy - busy_before, "tokens of a window are its busy time");
        let padded = padding[until] - padding[from];
        assert!(given as f64 + padded <= (until_us - from_us) as f64, "idle time is negative");
    }
    samples.len()
}

/// Calls of many sizes side by side: everything adds up, across samples and up to the last one.
async fn many_calls_add_up(change: impl FnOnce(&mut inference_node::Config)) -> Received {
    let world = World::start(change).await;
    let calls = (0..24u64).map(|seed| {
        let mut body = World::chat_body(3 + (seed % 40) as u32, seed % 2 == 0);
        body["seed"] = json!(seed);
        body["messages"][0]["content"] = json!("word ".repeat(1 + (seed as usize * 37) % 600));
        let world = &world;
        async move { assert!(world.chat(&body).await.text().await.unwrap().contains("choices")) }
    });
    futures::future::join_all(calls).await;
    let received = world.end().await;
    assert!(windows_add_up(&received) >= 2);
    let tokens = received.named("token");
    let calls = received.named("llm_request");
    assert_eq!(calls.len(), 24);
    for call in &calls {
        assert_eq!(tokens_of(&tokens, call).len() as u64, number(call, "gen_ai.usage.output_tokens"));
    }
    let busy = received.points("tokenwatt.engine.busy_us").last().unwrap().1;
    let given: u64 = tokens.iter().map(|token| number(token, "tokenwatt.token.device_us")).sum();
    assert_eq!(given as f64, busy);
    received
}

/// Compiled slots: empty ones are padding.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn device_time_of_slots_adds_up() {
    let received = many_calls_add_up(|config| config.engine.sim.slots = 4).await;
    assert!(received.points("tokenwatt.engine.padding_us").last().unwrap().1 > 0.0);
}

/// A token budget with prompts in chunks and too few blocks: no padding, and what was computed
/// twice is paid for by whom it was computed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn device_time_of_chunks_adds_up() {
    let received = many_calls_add_up(|config| {
        config.schedule.policy = Some(inference_node::schedule::Policy::TokenBudget);
        config.schedule.step_tokens_max = 256;
        config.schedule.blocks = 96;
        // The prompts begin alike; shared blocks would leave room for all.
        config.schedule.prefix_cache = Some(false);
        config.engine.sim.max_len = 1_024;
    })
    .await;
    assert_eq!(received.points("tokenwatt.engine.padding_us").last().unwrap().1, 0.0);
    let stalls = received.named("token").iter().filter(|token| stall(token) == "preempted").count();
    assert!(stalls > 0, "no sequence was preempted");
}

/// What was read from the prefix cache is said and costs nothing; every step is there with its calls, and their device time is
/// the engine's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_and_shared_prefixes_are_told() {
    let received = many_calls_add_up(|config| {
        config.schedule.policy = Some(inference_node::schedule::Policy::TokenBudget);
        config.engine.sim.max_len = 1_024;
        config.record.step_sampling = 1.0;
    })
    .await;
    let calls = received.named("llm_request");
    let cached = |call: &Span| number(call, "gen_ai.usage.cache_read.input_tokens");
    assert!(calls.iter().all(|call| cached(call) < number(call, "gen_ai.usage.input_tokens")));
    let hits: u64 = calls.iter().map(cached).sum();
    assert!(hits > 0, "no prompt was found in the cache");
    assert_eq!(hits as f64, received.points("vllm:prefix_cache_hits").last().unwrap().1);
    let steps = received.named("step");
    let device: u64 = steps.iter().map(|step| number(step, "tokenwatt.step.device_us")).sum();
    assert_eq!(device as f64, received.points("tokenwatt.engine.busy_us").last().unwrap().1);
    for step in &steps {
        assert!(!step.links.is_empty());
        assert!(step.links.iter().all(|link| calls.iter().any(|call| call.span_id == link.span_id)));
        let (used, budget) = (number(step, "tokenwatt.step.tokens"), number(step, "tokenwatt.step.budget"));
        assert!(used > 0 && used <= budget);
    }
}

fn stall(token: &Span) -> String {
    attributes(&token.attributes)["tokenwatt.token.stall"].clone()
}

/// The time of a call that was cut off is in the busy time and in its totals, though it has fewer tokens.
#[tokio::test]
async fn aborted_calls_are_counted() {
    let world = World::start(|_| {}).await;
    drop(crate::world::first_text(world.chat(&World::chat_body(3000, true)).await).await);
    let received = world.end().await;
    let calls = received.named("llm_request");
    let total = number(&calls[0], "tokenwatt.device_us.prefill") + number(&calls[0], "tokenwatt.device_us.decode");
    assert_eq!(total as f64, received.points("tokenwatt.engine.busy_us").last().unwrap().1);
    assert_eq!(attributes(&calls[0].attributes)["error.type"], "cancelled");
}

/// Modelled watts say that they are assumed, and energy agrees with power; unknown hardware has neither.
#[tokio::test]
async fn power_is_labelled() {
    let world = World::start(|_| {}).await;
    world.chat(&World::chat_body(20, false)).await.text().await.unwrap();
    let received = world.end().await;
    let energy = received.points("hw.energy");
    let (_, joules, about) = energy.last().unwrap();
    assert_eq!(energy.iter().map(|(_, _, about)| &about["hw.id"]).collect::<std::collections::HashSet<_>>().len(), 12);
    assert!(*joules > 0.0);
    for (key, value) in [
        ("tokenwatt.energy_method", "load_curve"),
        ("tokenwatt.boundary", "chip"),
        ("tokenwatt.confidence", "assumed"),
        ("hw.model", "inferentia2"),
    ] {
        assert_eq!(about[key], value);
    }
    assert!(received.points("hw.power").iter().all(|(_, watts, _)| *watts > 20.0 && *watts <= 175.0));

    let unknown = World::start(|config| {
        config.engine.sim.accelerator = Some("custom-npu".to_owned());
        config.engine.sim.chips = Some(8);
    })
    .await;
    unknown.chat(&World::chat_body(2, false)).await.text().await.unwrap();
    let received = unknown.end().await;
    assert!(received.points("hw.energy").is_empty() && received.points("hw.power").is_empty());
    assert_eq!(received.points("hw.gpu.utilization").last().unwrap().2["hw.model"], "custom-npu");
}

/// A tenant is believed from a gateway of the fleet and from nobody else.
#[tokio::test]
async fn tenants_are_not_taken_on_trust() {
    let world = World::start(|config| {
        config.fleet_secret = Some(service::secret::Secret::new("fleet"));
    })
    .await;
    for secret in ["fleet", "guess"] {
        let request = world
            .client
            .post(format!("{}/v1/chat/completions", world.url))
            .header("x-tokenwatt-tenant", "acme")
            .header("x-tokenwatt-fleet-secret", secret)
            .json(&World::chat_body(1, false));
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        assert_eq!(answer["usage"]["completion_tokens"], 1);
    }
    let received = world.end().await;
    let tenants: Vec<_> = received
        .named("llm_request")
        .iter()
        .map(|call| attributes(&call.attributes).get("tokenwatt.tenant").cloned())
        .collect();
    assert_eq!(tenants, [Some("acme".to_owned()), None]);
}

/// With sampling 0 no token is sent, and the totals of the call are all the same there.
#[tokio::test]
async fn unsampled_calls_keep_their_totals() {
    let world = World::start(|config| config.record.token_sampling = 0.0).await;
    world.chat(&World::chat_body(4, false)).await.text().await.unwrap();
    let received = world.end().await;
    assert!(received.named("token").is_empty());
    let calls = received.named("llm_request");
    assert!(number(&calls[0], "tokenwatt.device_us.decode") > 0);
    assert_eq!(attributes(&calls[0].attributes)["tokenwatt.token_sampling"], "0");
}

/// Where phases are recorded, they are children of the call and fill it from end to end.
#[tokio::test]
async fn phases_are_spans_where_asked_for() {
    let world = World::start(|config| config.record.phase_spans = true).await;
    world.chat(&World::chat_body(5, false)).await.text().await.unwrap();
    let received = world.end().await;
    let [call] = &received.named("llm_request")[..] else { panic!("one call") };
    let mut reached = call.start_time_unix_nano;
    for name in ["queue", "prefill", "decode"] {
        let [phase] = &received.named(name)[..] else { panic!("one {name}") };
        assert_eq!((&phase.trace_id, &phase.parent_span_id), (&call.trace_id, &call.span_id));
        assert_eq!(phase.start_time_unix_nano, reached, "{name}");
        reached = phase.end_time_unix_nano;
    }
    assert_eq!(reached, call.end_time_unix_nano);
    assert_eq!(received.spans().len(), 1 + 5 + 3);
}

/// The node's page names the trace of a call beside the bucket that its time to the first token is in, for who asks for OpenMetrics.
#[tokio::test]
async fn exemplars_lead_to_traces() {
    let world = World::start(|_| {}).await;
    let request = world
        .client
        .post(format!("{}/v1/chat/completions", world.url))
        .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .json(&World::chat_body(2, false));
    request.send().await.unwrap().text().await.unwrap();
    let page = async |accept: &str| {
        let asked = world.client.get(format!("{}/metrics", world.url)).header("accept", accept);
        asked.send().await.unwrap().text().await.unwrap()
    };
    let named = async {
        loop {
            let page = page("application/openmetrics-text; version=1.0.0").await;
            let mut buckets = page.lines().filter(|line| line.starts_with("vllm:time_to_first_token_seconds_bucket"));
            if buckets.any(|line| line.contains(" 1 # {trace_id=\"0af7651916cd43dd8448eb211c80319c\"} 0.")) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(crate::world::PATIENCE, named).await.unwrap();
    assert!(!page("text/plain").await.contains("trace_id"));
    world.end().await;
}
