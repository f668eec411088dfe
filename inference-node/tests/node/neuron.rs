//! A node over libnrt: what clients and the collector see of it, and of a device that is lost.

use std::collections::BTreeSet;

use inference_node::engine::EngineKind;
use serde_json::{Value, json};

use crate::stub::{Compiled, Stub, continuation, text};
use crate::world::{World, attributes, frames, number};

async fn start(stub: &Stub) -> World {
    World::start(|config| {
        config.engine.kind = EngineKind::Neuron;
        config.engine.neuron.library = stub.library();
        config.engine.neuron.model_dir = stub.model().to_owned();
    })
    .await
}

fn body(prompt: &[i64], tokens: usize, stream: bool) -> Value {
    json!({
        "model": "counting", "prompt": text(prompt), "max_tokens": tokens, "temperature": 0, "ignore_eos": true,
        "stream": stream,
    })
}

fn said(frames: &[Value]) -> String {
    frames.iter().filter_map(|frame| frame["choices"][0]["text"].as_str()).collect()
}

/// Twenty-four ranks answer several clients at once, streaming and not; every token and its device time is recorded, and the
/// runtime is closed with nothing left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_all_ranks() {
    let stub = Stub::new("family 4\ncores 24\n", &Compiled { ranks: 24, ..Compiled::default() });
    let world = start(&stub).await;
    let calls = (1..=6).map(|client: i64| {
        let (world, prompt) = (&world, vec![client, 2 * client, 40]);
        async move {
            let response = world.post("/v1/completions", &body(&prompt, 8, client % 2 == 0)).await;
            let answer = match client % 2 {
                0 => said(&frames(response).await),
                _ => said(&[response.json().await.unwrap()]),
            };
            assert_eq!(answer, text(&continuation(&prompt, 8)), "client {client}");
        }
    });
    futures::future::join_all(calls).await;
    let received = world.end().await;
    let tokens = received.named("token");
    assert_eq!(tokens.len(), 6 * 8);
    let requests = received.named("llm_request");
    assert_eq!(requests.len(), 6);
    let about = attributes(&requests[0].attributes);
    assert_eq!(
        (about["tokenwatt.engine"].as_str(), about["tokenwatt.accelerator"].as_str()),
        ("neuron", "inferentia2")
    );
    assert_eq!((about["tokenwatt.quantization"].as_str(), about["tokenwatt.tensor_parallel"].as_str()), ("int8", "24"));
    let of_tokens: u64 = tokens.iter().map(|span| number(span, "tokenwatt.token.device_us")).sum();
    let of_requests: u64 = requests
        .iter()
        .map(|span| number(span, "tokenwatt.device_us.prefill") + number(span, "tokenwatt.device_us.decode"))
        .sum();
    assert_eq!(of_tokens, of_requests);
    assert_eq!(received.resource()["tokenwatt.chips"], "12");
    stub.assert_closed();
}

/// A chip at work draws more than one at rest: 100 tokens at 2 ms a step, and every step is modelled above the 26.25 W of an
/// Inferentia2 at rest and at most at its 175 W. A meter that stands still while steps run would have 0 J, and one that calls the
/// whole stretch rest 26.25 J for each second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chip_under_load_draws_more_than_at_rest() {
    let stub = Stub::new("execute_us 2000\n", &Compiled::default());
    let world = start(&stub).await;
    let answer = world.post("/v1/completions", &body(&[5, 6], 100, false)).await;
    assert_eq!(answer.status(), 200);
    let received = world.end().await;
    let energy = received.points("hw.energy");
    let ((from, begun, _), (to, joules, about)) = (&energy[0], energy.last().unwrap());
    let seconds = (to - from) as f64 / 1e9;
    let mean_w = (joules - begun) / seconds;
    assert!(mean_w > 26.3 && mean_w <= 175.0, "{mean_w} W over {seconds} s");
    for (key, value) in
        [("tokenwatt.energy_method", "load_curve"), ("tokenwatt.confidence", "assumed"), ("hw.id", "neuron0")]
    {
        assert_eq!(about[key], value);
    }
    let power = received.points("hw.power");
    assert!(!power.is_empty() && power.iter().all(|(_, watts, _)| (26.25..=175.0).contains(watts)), "{power:?}");
}

/// A replica on cores 8 to 15 of a Trn1 has the chips 4 to 7, and calls them what the driver does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chips_are_those_of_the_replicas_cores() {
    let stub = Stub::new("family 2\ncores 32\n", &Compiled { ranks: 8, ..Compiled::default() });
    let world = World::start(|config| {
        config.engine.kind = EngineKind::Neuron;
        config.engine.neuron.library = stub.library();
        config.engine.neuron.model_dir = stub.model().to_owned();
        config.engine.neuron.first_core = 8;
    })
    .await;
    let received = world.end().await;
    let named: BTreeSet<_> =
        received.points("hw.energy").into_iter().map(|(_, _, about)| about["hw.id"].clone()).collect();
    assert_eq!(named.into_iter().collect::<Vec<_>>(), ["neuron4", "neuron5", "neuron6", "neuron7"]);
}

/// A prompt that fits the longest sequence and no compiled graph is refused as too long before anything runs, as other engines refuse it;
/// the longest that a graph takes is answered.
#[tokio::test]
async fn prompts_that_no_graph_takes() {
    let compiled = Compiled::default();
    let stub = Stub::new("", &compiled);
    let mut manifest = stub.manifest(&compiled);
    manifest["graphs"].as_array_mut().unwrap().retain(|graph| graph["neff"] != "prefill-256.neff");
    stub.write("neuron.json", &manifest.to_string());
    let world = start(&stub).await;
    let long: Vec<i64> = (0..129).map(|id| id % 90).collect();
    let answered = world.post("/v1/completions", &body(&long[..128], 2, false)).await;
    assert_eq!(said(&[answered.json().await.unwrap()]), text(&continuation(&long[..128], 2)));
    let refused = world.post("/v1/completions", &body(&long, 2, false)).await;
    assert_eq!(refused.status(), 400);
    let error = refused.json::<Value>().await.unwrap()["error"].clone();
    assert_eq!(error["message"], "the model takes prompts of up to 128 tokens, the request's has 129");
    assert_eq!((error["code"].as_str(), error["param"].as_str()), (Some("context_length_exceeded"), Some("prompt")));
    world.end().await;
    stub.assert_closed();
}

/// The device is lost while several answers are on their way: each of them ends with the reason, none with a whole answer, and
/// the next call is served by the engine that started again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn device_lost_in_the_middle_of_a_batch() {
    let stub = Stub::new("execute_us 2000\nfail nrt_execute 1202 9\n", &Compiled::default());
    let world = start(&stub).await;
    let broken = (1..=3).map(|client: i64| {
        let world = &world;
        async move {
            let answer = world.post("/v1/completions", &body(&[client, 7], 100, true)).await;
            assert_eq!(answer.status(), 200);
            answer.text().await.unwrap()
        }
    });
    for answer in futures::future::join_all(broken).await {
        assert!(answer.contains("NRT_EXEC_HW_ERR_NC_UE, 1202") && answer.contains("\"error\""), "{answer}");
        assert!(!answer.contains("finish_reason\":\"length"), "{answer}");
    }
    let again = world.post("/v1/completions", &body(&[5, 6], 4, false)).await;
    assert_eq!(said(&[again.json().await.unwrap()]), text(&continuation(&[5, 6], 4)));
    let ready = world.client.get(format!("{}/readyz", world.url)).send().await.unwrap();
    assert_eq!(ready.status(), 200);
    let received = world.end().await;
    let requests = received.named("llm_request");
    let failed = requests.iter().filter(|span| attributes(&span.attributes).contains_key("error.type")).count();
    assert_eq!((requests.len(), failed), (4, 3));
    assert_eq!(stub.calls().iter().filter(|call| call.starts_with("nrt_init")).count(), 2);
    stub.assert_closed();
}

/// A numerical error spoils one step: its request fails with the reason, and the engine goes on without starting again.
#[tokio::test]
async fn a_step_that_fails() {
    let stub = Stub::new("fail nrt_execute 1003 3\n", &Compiled::default());
    let world = start(&stub).await;
    let failed = world.post("/v1/completions", &body(&[5, 6], 8, false)).await;
    assert_eq!(failed.status(), 500);
    let text_of = failed.text().await.unwrap();
    assert!(text_of.contains("NRT_EXEC_COMPLETED_WITH_NUM_ERR"), "{text_of}");
    let next = world.post("/v1/completions", &body(&[5, 6], 4, false)).await;
    assert_eq!(said(&[next.json().await.unwrap()]), text(&continuation(&[5, 6], 4)));
    world.end().await;
    assert_eq!(stub.calls().iter().filter(|call| call.starts_with("nrt_init")).count(), 1);
    stub.assert_closed();
}

/// A device that does not come back: the running call ends with the reason, and the node ends by itself, with both reasons.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn device_that_does_not_come_back() {
    let stub = Stub::new("fail nrt_execute 6 3\nfail nrt_init 1 2\n", &Compiled::default());
    let mut world = start(&stub).await;
    let answer = world.post("/v1/completions", &body(&[5, 6], 100, true)).await.text().await.unwrap();
    assert!(answer.contains("NRT_HW_ERROR, 6"), "{answer}");
    let error = world.failed().await;
    let chain = service::error::chain(&error);
    assert!(
        chain.contains("the engine is gone") && chain.contains("nrt_init") && chain.contains("NRT_FAILURE"),
        "{chain}"
    );
    let spans = world.received.named("llm_request");
    assert_eq!(spans.len(), 1, "what happened was recorded");
    stub.assert_closed();
}

/// Without the runtime a node does not start, and says what is missing and what would run here.
#[tokio::test]
async fn without_the_runtime() {
    let stub = Stub::new("", &Compiled::default());
    let mut config = inference_node::Config::default();
    config.http_addr.set_port(0);
    config.engine.kind = EngineKind::Neuron;
    config.engine.neuron.model_dir = stub.model().to_owned();
    config.engine.neuron.library = "/nowhere/libnrt.so.1".into();
    let error = inference_node::build(config.clone(), service::Deps::system()).await.err().unwrap();
    assert_eq!(error.kind(), service::Kind::Invalid);
    let said = error.to_string();
    assert!(said.contains("/nowhere/libnrt.so.1") && said.contains("`sim` and `cpu` need none"), "{said}");
    config.schedule.policy = Some(inference_node::schedule::Policy::TokenBudget);
    let error = inference_node::build(config, service::Deps::system()).await.err().unwrap();
    assert!(error.to_string().contains("policy must be neuron_slots"), "{error}");
}
