//! The gateway before real nodes on real sockets.

mod node;
mod sink;

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::StatusCode;
use futures::StreamExt;
use serde_json::{Value, json};
use service::Deps;
use service::secret::Secret;
use telemetry::names;
use tonic::Code;

use self::node::{DONE, Node, Script, frame, usage_frame};
use self::sink::Sink;
use crate::Config;
use crate::config::{Key, Node as NodeConfig};

const CLIENT_PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A gateway that runs, and the client that talks to it.
struct Front {
    url: String,
    client: reqwest::Client,
    deps: Deps,
}

impl Front {
    async fn start(nodes: &[(&Node, &str)], change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config {
            http_addr: ([127, 0, 0, 1], 0).into(),
            nodes: nodes.iter().map(|(node, region)| config_of(&node.url, region)).collect(),
            // No test waits for the collector unless it has one.
            otlp_endpoint: "http://127.0.0.1:9".to_owned(),
            probe_every: Duration::from_millis(20),
            ..Config::default()
        };
        change(&mut config);
        let deps = Deps::system();
        let built = crate::build(config, deps.clone()).await.unwrap();
        let url = format!("http://{}", built.http_addr());
        deps.tasks.spawn("gateway", built.run());
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let front = Self { url, client, deps };
        front.until(|front| async move { front.get("/healthz").await.is_ok() }).await;
        front
    }

    async fn get(&self, path: &str) -> reqwest::Result<reqwest::Response> {
        self.client.get(format!("{}{path}", self.url)).send().await
    }

    fn chat(&self) -> reqwest::RequestBuilder {
        let body =
            json!({"model": "m", "stream": true, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
        self.client.post(format!("{}/v1/chat/completions", self.url)).json(&body)
    }

    async fn nodes(&self) -> Vec<Value> {
        let nodes: Value = self.get("/admin/nodes").await.unwrap().json().await.unwrap();
        nodes.as_array().unwrap().clone()
    }

    /// Outstanding calls of every node, in the order of the settings.
    async fn outstanding(&self) -> Vec<u64> {
        self.nodes().await.iter().map(|node| node["outstanding"].as_u64().unwrap()).collect()
    }

    /// Waits for something that certainly comes; the limit is only there to fail instead of hanging.
    async fn until<'a, F: Future<Output = bool>>(&'a self, holds: impl Fn(&'a Self) -> F) {
        let wait = async {
            while !holds(self).await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), wait).await.expect("what was waited for did not come");
    }

    async fn stop(self) {
        assert_eq!(self.deps.shutdown.walk(Duration::from_secs(10)).await, Vec::<String>::new());
        assert_eq!(self.deps.tasks.join(Duration::from_secs(10)).await, Vec::<String>::new());
    }
}

fn config_of(url: &str, region: &str) -> NodeConfig {
    NodeConfig { url: url.to_owned(), region: region.to_owned(), weight: 1.0 }
}

/// An address at which nothing listens.
fn dead_url() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// What a node sends reaches the client byte for byte and at once: the second frame is sent only after the client has the first.
#[tokio::test]
async fn streams_are_passed_through_unbuffered() {
    let node = Node::start(Script::Stepwise).await;
    let front = Front::start(&[(&node, "east")], |_| {}).await;
    let response = front.chat().send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
    let mut body = response.bytes_stream();
    assert_eq!(body.next().await.unwrap().unwrap(), Bytes::from(frame("one")));
    assert_eq!(front.outstanding().await, [1]);
    node.go_on();
    let mut rest = Vec::new();
    while let Some(bytes) = body.next().await {
        rest.extend_from_slice(&bytes.unwrap());
    }
    assert_eq!(String::from_utf8(rest).unwrap(), format!("{}{}{DONE}", frame("two"), usage_frame(7, 2)));
    front.until(|front| async move { front.outstanding().await == [0] }).await;
    front.stop().await;
}

/// A client that goes away ends the call at the node, and the node's count comes back to zero: before the first byte and after.
#[tokio::test]
async fn leaving_client_frees_the_node() {
    let node = Node::start(Script::Stepwise).await;
    let front = Front::start(&[(&node, "east")], |_| {}).await;
    for _ in 0..3 {
        let mut body = front.chat().send().await.unwrap().bytes_stream();
        body.next().await.unwrap().unwrap();
        drop(body);
        node.wait_cancelled().await;
    }
    front.until(|front| async move { front.outstanding().await == [0] }).await;

    let silent = Node::start(Script::Silent).await;
    let front = Front::start(&[(&silent, "east")], |_| {}).await;
    let request = front.chat();
    let call = tokio::spawn(request.send());
    front.until(|front| async move { front.outstanding().await == [1] }).await;
    call.abort();
    silent.wait_cancelled().await;
    front.until(|front| async move { front.outstanding().await == [0] }).await;
}

/// New calls go to the node that has nothing to do while the other still works.
#[tokio::test]
async fn busy_node_is_avoided() {
    let (one, two) = (Node::start(Script::Silent).await, Node::start(Script::Answer).await);
    let front = Front::start(&[(&one, "east"), (&two, "east")], |_| {}).await;
    let mut stuck = Vec::new();
    while one.calls().is_empty() {
        let request = front.chat();
        stuck.push(tokio::spawn(request.send()));
        front.until(|_| async { one.calls().len() + two.calls().len() == stuck.len() }).await;
    }
    front.until(|front| async move { front.outstanding().await == [1, 0] }).await;
    let before = two.calls().len();
    for _ in 0..10 {
        assert_eq!(front.chat().send().await.unwrap().status(), 200);
        front.until(|front| async move { front.outstanding().await == [1, 0] }).await;
    }
    assert_eq!((one.calls().len(), two.calls().len()), (1, before + 10));
}

/// While no byte has gone to the client, other nodes are tried, each once; the client sees only the good answer.
#[tokio::test]
async fn failing_nodes_are_replaced_before_the_first_byte() {
    let (bad, good) = (Node::start(Script::Refuse(503)).await, Node::start(Script::Answer).await);
    let front = Front::start(&[(&bad, "east"), (&good, "east")], |config| {
        config.nodes.push(config_of(&dead_url(), "east"));
        // Looks would leave the dead node out; here the call itself has to find out.
        config.probe_every = Duration::from_secs(3600);
    })
    .await;
    for _ in 0..20 {
        let response = front.chat().send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(response.text().await.unwrap().ends_with(DONE));
    }
    assert_eq!(good.calls().len(), 20);
    assert!(!bad.calls().is_empty());
    front.until(|front| async move { front.outstanding().await == [0, 0, 0] }).await;
}

/// When every node tried fails, the client gets the last node's own answer, after at most two further tries.
#[tokio::test]
async fn last_failure_is_passed_on() {
    let nodes = [
        Node::start(Script::Refuse(503)).await,
        Node::start(Script::Refuse(503)).await,
        Node::start(Script::Refuse(503)).await,
        Node::start(Script::Refuse(503)).await,
    ];
    let nodes: Vec<(&Node, &str)> = nodes.iter().map(|node| (node, "east")).collect();
    let front = Front::start(&nodes, |_| {}).await;
    let response = front.chat().send().await.unwrap();
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["retry-after"], "3");
    assert_eq!(response.text().await.unwrap(), "busy");
    assert_eq!(nodes.iter().map(|(node, _)| node.calls().len()).sum::<usize>(), 3);
    front.until(|front| async move { front.outstanding().await == [0, 0, 0, 0] }).await;
}

/// A client's own fault is never tried elsewhere.
#[tokio::test]
async fn client_faults_are_not_retried() {
    let nodes = [Node::start(Script::Refuse(400)).await, Node::start(Script::Refuse(400)).await];
    let front = Front::start(&[(&nodes[0], "east"), (&nodes[1], "east")], |_| {}).await;
    assert_eq!(front.chat().send().await.unwrap().status(), 400);
    assert_eq!(nodes[0].calls().len() + nodes[1].calls().len(), 1);
}

/// After the first byte nothing is tried again: the client is told in the stream, which ends without `[DONE]`.
#[tokio::test]
async fn broken_streams_end_with_an_error() {
    let nodes = [Node::start(Script::Break).await, Node::start(Script::Break).await];
    let front = Front::start(&[(&nodes[0], "east"), (&nodes[1], "east")], |_| {}).await;
    let text = front.chat().send().await.unwrap().text().await.unwrap();
    let (first, error) = text.split_at(frame("one").len());
    assert_eq!(first, frame("one"));
    let error: Value = serde_json::from_str(error.trim().strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(error["error"]["code"], "node_unreachable");
    assert_eq!(nodes[0].calls().len() + nodes[1].calls().len(), 1);
    front.until(|front| async move { front.outstanding().await == [0, 0] }).await;
}

/// Nodes that say they are not ready get no calls until they are.
#[tokio::test]
async fn unready_nodes_are_left_out() {
    let (one, two) = (Node::start(Script::Answer).await, Node::start(Script::Answer).await);
    one.set_ready(false);
    let front = Front::start(&[(&one, "east"), (&two, "east")], |_| {}).await;
    front.until(|front| async move { front.nodes().await[0]["usable"] == false }).await;
    for _ in 0..10 {
        assert_eq!(front.chat().send().await.unwrap().status(), 200);
    }
    assert_eq!((one.calls().len(), two.calls().len()), (0, 10));
    two.set_ready(false);
    front.until(|front| async move { front.nodes().await[1]["usable"] == false }).await;
    let response = front.chat().send().await.unwrap();
    assert_eq!(response.status(), 503);
    assert!(response.headers().contains_key("retry-after"));
    assert_eq!(response.json::<Value>().await.unwrap()["error"]["code"], "no_node_available");
    one.set_ready(true);
    front.until(|front| async move { front.nodes().await[0]["usable"] == true }).await;
    assert_eq!(front.chat().send().await.unwrap().status(), 200);
}

/// No key and wrong keys are refused in OpenAI's shape before a node hears of the call; a good key gives the tenant, whatever
/// the client claims, and the key itself stays here.
#[tokio::test]
async fn keys_give_tenants() {
    let node = Node::start(Script::Answer).await;
    let front = Front::start(&[(&node, "east")], |config| {
        config.keys = vec![Key { key: Secret::new("sk-1"), tenant: "acme".to_owned() }];
        config.fleet_secret = Some(Secret::new("fleet"));
    })
    .await;
    for (request, code) in [(front.chat(), "missing_api_key"), (front.chat().bearer_auth("sk-2"), "invalid_api_key")] {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        let body: Value = response.json().await.unwrap();
        assert_eq!(body["error"]["code"], code);
        assert_eq!(body["error"]["type"], "invalid_request_error");
        assert!(body["error"]["message"].is_string() && body["error"]["param"].is_null());
    }
    assert!(node.calls().is_empty());
    let request = front
        .chat()
        .bearer_auth("sk-1")
        .header(names::HEADER_TENANT, "evil")
        .header(names::HEADER_FLEET_SECRET, "guess");
    assert_eq!(request.header("x-custom", "kept").send().await.unwrap().status(), 200);
    let calls = node.calls();
    let of = |name: &str| calls[0].get_all(name).iter().map(|value| value.to_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(of(names::HEADER_TENANT), ["acme"]);
    assert_eq!(of(names::HEADER_FLEET_SECRET), ["fleet"]);
    assert_eq!(of("x-custom"), ["kept"]);
    assert_eq!(of("authorization"), Vec::<&str>::new());
    assert_eq!(front.get("/admin/nodes").await.unwrap().status(), 401);
}

/// Shares of regions can be changed while calls come in; weights that make no sense change nothing.
#[tokio::test]
async fn regions_can_be_reweighted() {
    let (east, west) = (Node::start(Script::Answer).await, Node::start(Script::Answer).await);
    let front = Front::start(&[(&east, "us-east-1"), (&west, "us-west-2")], |config| {
        config.regions = BTreeMap::from([("us-east-1".to_owned(), 1.0), ("us-west-2".to_owned(), 0.0)]);
    })
    .await;
    let calls = async || {
        for _ in 0..10 {
            assert_eq!(front.chat().send().await.unwrap().status(), 200);
        }
        (east.calls().len(), west.calls().len())
    };
    assert_eq!(calls().await, (10, 0));
    let put = async |weights: Value| {
        let request = front.client.put(format!("{}/admin/regions", front.url)).json(&weights);
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(put(json!({"us-east-1": 0.0, "us-west-2": 2.5})).await, 200);
    assert_eq!(calls().await, (10, 10));
    assert_eq!(put(json!({"us-east-1": -1.0})).await, 400);
    assert_eq!(put(json!({"us-east-1": 0.0})).await, 400);
    assert_eq!(put(json!({"mars-1": 1.0})).await, 400);
    assert_eq!(calls().await, (10, 20));
}

/// Client, gateway and node stand in one trace, and the collector gets the call as measured here.
#[tokio::test]
async fn calls_are_recorded_in_the_clients_trace() {
    let sink = Sink::start().await;
    let node = Node::start(Script::Answer).await;
    let front = Front::start(&[(&node, "eu-west-1")], |config| {
        config.otlp_endpoint = sink.url.clone();
        config.keys = vec![Key { key: Secret::new("sk-1"), tenant: "acme".to_owned() }];
    })
    .await;
    front.chat().bearer_auth("sk-1").header("traceparent", CLIENT_PARENT).send().await.unwrap().text().await.unwrap();
    front.stop().await;

    let (resource, span) = sink.only_span();
    assert_eq!(hex(&span.trace_id), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(hex(&span.parent_span_id), "b7ad6b7169203331");
    let sent = node.calls()[0]["traceparent"].to_str().unwrap().to_owned();
    assert_eq!(sent, format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id)));
    assert_eq!(span.name, names::SPAN_REQUEST);
    assert_eq!(resource[names::CLOUD_REGION], "eu-west-1");
    let values = sink::attributes(&span.attributes);
    for (name, value) in [
        (names::MEASURED_AT, "gateway"),
        (names::TENANT, "acme"),
        (names::OPERATION, "chat"),
        (names::REQUEST_MODEL, "m"),
        (names::REQUEST_MAX_TOKENS, "9"),
        (names::REQUEST_STREAM, "true"),
        (names::INPUT_TOKENS, "7"),
        (names::OUTPUT_TOKENS, "2"),
        (names::OUTPUT_TOKENS_SOURCE, "usage"),
        (names::FINISH_REASONS, "[stop]"),
        (names::GATEWAY_ATTEMPTS, "1"),
    ] {
        assert_eq!(values.get(name).map(String::as_str), Some(value), "{name}");
    }
    let seconds = |name: &str| values[name].parse::<f64>().unwrap();
    assert!(seconds(names::LATENCY_TTFT) > 0.0 && seconds(names::LATENCY_TTFT) <= seconds(names::LATENCY_E2E));
    let wall = (span.end_time_unix_nano - span.start_time_unix_nano) as f64 / 1e9;
    assert!((wall - seconds(names::LATENCY_E2E)).abs() < 1e-6);
    assert!(!values.contains_key(names::ERROR_TYPE));
}

/// A call that its client gave up is recorded as such, with what had been relayed; a call no node took is recorded too.
#[tokio::test]
async fn unfinished_calls_are_recorded() {
    let sink = Sink::start().await;
    let node = Node::start(Script::Stepwise).await;
    let front = Front::start(&[(&node, "east")], |config| config.otlp_endpoint = sink.url.clone()).await;
    let mut body = front.chat().send().await.unwrap().bytes_stream();
    body.next().await.unwrap().unwrap();
    drop(body);
    node.wait_cancelled().await;
    front.until(|front| async move { front.outstanding().await == [0] }).await;
    front.stop().await;
    let (_, span) = sink.only_span();
    let values = sink::attributes(&span.attributes);
    assert_eq!(values[names::ERROR_TYPE], "client_disconnected");
    assert_eq!(values[names::OUTPUT_TOKENS], "1");
    assert_eq!(values[names::OUTPUT_TOKENS_SOURCE], "chunks");
    assert!(values.contains_key(names::LATENCY_TTFT));

    let sink = Sink::start().await;
    let front = Front::start(&[], |config| {
        config.otlp_endpoint = sink.url.clone();
        config.identity.region = Some("home".to_owned());
    })
    .await;
    assert_eq!(front.chat().send().await.unwrap().status(), 503);
    front.stop().await;
    let (resource, span) = sink.only_span();
    assert_eq!(resource[names::CLOUD_REGION], "home");
    assert_eq!(sink::attributes(&span.attributes)[names::ERROR_TYPE], "no_node_available");
}

/// What the collector refuses for good is given up and counted, and what comes after it arrives.
#[tokio::test]
async fn a_refusal_for_good_does_not_hold_up_later_records() {
    let sink = Sink::refusing(&[Code::InvalidArgument, Code::Unavailable]).await;
    let node = Node::start(Script::Answer).await;
    let front = Front::start(&[(&node, "east")], |config| config.otlp_endpoint = sink.url.clone()).await;
    let metric = async |line: &str| front.get("/metrics").await.unwrap().text().await.unwrap().contains(line);
    front.chat().send().await.unwrap().text().await.unwrap();
    front.until(|_| metric("tokenwatt_gateway_records_lost_total 1")).await;
    front.chat().send().await.unwrap().text().await.unwrap();
    front.until(|_| metric("tokenwatt_gateway_records_sent_total 1")).await;
    assert!(metric("tokenwatt_gateway_records_lost_total 1").await);
    sink.only_span();
    front.stop().await;
}

/// A refusal is the fault of who made the mistake, and what a node calls by the wrong type of is the node's to refuse.
#[tokio::test]
async fn refusals_are_recorded_as_whose_they_are() {
    for (status, error) in [(400, "client_error"), (429, "rate_limited"), (500, "node_error")] {
        let sink = Sink::start().await;
        let node = Node::start(Script::Refuse(status)).await;
        let front = Front::start(&[(&node, "east")], |config| config.otlp_endpoint = sink.url.clone()).await;
        let body = json!({"model": "m".repeat(300), "max_tokens": 1.5, "n": "many", "stream": true});
        let url = format!("{}/v1/completions", front.url);
        let response = front.client.post(url).json(&body).send().await.unwrap();
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(response.text().await.unwrap(), "busy", "in the node's words");
        front.stop().await;
        let values = sink::attributes(&sink.only_span().1.attributes);
        assert_eq!(values[names::ERROR_TYPE], error);
        assert_eq!(values[names::REQUEST_STREAM], "true");
        assert!(!values.contains_key(names::REQUEST_MAX_TOKENS) && !values.contains_key(names::REQUEST_MODEL));
    }
}

/// An answer without a body is over with its head: it is recorded as what it was, and not as given up by the client.
#[tokio::test]
async fn empty_answers_are_recorded_as_what_they_are() {
    for (status, error) in [
        (204, None),
        (307, Some("node_error")),
        (401, Some("client_error")),
        (429, Some("rate_limited")),
        (500, Some("node_error")),
        (503, Some("node_error")),
        (599, Some("node_error")),
    ] {
        let sink = Sink::start().await;
        let node = Node::start(Script::Empty(status)).await;
        let front = Front::start(&[(&node, "east")], |config| config.otlp_endpoint = sink.url.clone()).await;
        assert_eq!(front.chat().send().await.unwrap().status().as_u16(), status);
        front.stop().await;
        let values = sink::attributes(&sink.only_span().1.attributes);
        assert_eq!(values.get(names::ERROR_TYPE).map(String::as_str), error, "{status}");
    }
}

/// A stream that ends though nothing in it said so is cut: the client is told, and it is no success. Nor is one that says it failed.
#[tokio::test]
async fn cut_streams_are_no_success() {
    const FAILED: &str = "data: {\"error\":{\"message\":\"out of memory\"}}\n\ndata: [DONE]\n\n";
    const ENDED: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n";
    for (bytes, is_told, error) in [
        ("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", true, Some("node_unreachable")),
        ("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"cho", true, Some("node_unreachable")),
        (FAILED, false, Some("node_error")),
        (ENDED, false, None),
    ] {
        let sink = Sink::start().await;
        let node = Node::start(Script::Stream(bytes)).await;
        let front = Front::start(&[(&node, "east")], |config| config.otlp_endpoint = sink.url.clone()).await;
        let text = front.chat().send().await.unwrap().text().await.unwrap();
        assert!(text.starts_with(bytes), "{text}");
        assert_eq!(text[bytes.len()..].contains("node_unreachable"), is_told, "{text}");
        assert_eq!(text.len() > bytes.len(), is_told, "{text}");
        front.stop().await;
        let values = sink::attributes(&sink.only_span().1.attributes);
        assert_eq!(values.get(names::ERROR_TYPE).map(String::as_str), error, "{bytes}");
    }
}

/// Headers of a hop end with the hop, in both directions; also those that only `Connection` says are.
#[tokio::test]
async fn headers_of_a_hop_go_no_further() {
    let node = Node::start(Script::Refuse(400)).await;
    let front = Front::start(&[(&node, "east")], |_| {}).await;
    let request = front.chat().header("connection", "close, X-Secret-Hop").header("x-secret-hop", "1");
    let response = request.header("x-end", "1").send().await.unwrap();
    let sent = &node.calls()[0];
    assert!(!sent.contains_key("x-secret-hop") && sent.contains_key("x-end"), "{sent:?}");
    assert!(!response.headers().contains_key("x-hop") && response.headers().contains_key("x-end"));
}

/// Bodies that are too large or no JSON, and unknown paths, get a clear answer in OpenAI's shape.
#[tokio::test]
async fn bad_requests_are_answered() {
    let node = Node::start(Script::Answer).await;
    let front = Front::start(&[(&node, "east")], |config| config.request_bytes_max = 1000).await;
    let post = async |path: &str, body: Vec<u8>| {
        let response = front.client.post(format!("{}{path}", front.url)).body(body).send().await.unwrap();
        let status = response.status().as_u16();
        let body: Value = response.json().await.unwrap();
        (status, body["error"]["code"].as_str().unwrap().to_owned())
    };
    assert_eq!(post("/v1/chat/completions", vec![b' '; 2000]).await, (413, "request_too_large".to_owned()));
    assert_eq!(post("/v1/completions", b"{\"model\":".to_vec()).await, (400, "invalid_json".to_owned()));
    assert_eq!(post("/v1/embeddings", b"{}".to_vec()).await, (404, "unknown_url".to_owned()));
    assert!(node.calls().is_empty());
    assert_eq!(front.get("/v1/models").await.unwrap().text().await.unwrap(), "models");
    let metrics = front.get("/metrics").await.unwrap().text().await.unwrap();
    assert!(metrics.contains("tokenwatt_gateway_calls_total{outcome=\"invalid_json\",status=\"400\"} 1"), "{metrics}");
}

/// Settings that cannot be are refused, all at once.
#[tokio::test]
async fn wrong_settings_are_refused() {
    let config = Config {
        http_addr: ([0, 0, 0, 0], 0).into(),
        nodes: vec![NodeConfig { url: "10.0.0.1".to_owned(), region: String::new(), weight: 0.0 }],
        ..Config::default()
    };
    let error = crate::build(config, Deps::system()).await.err().unwrap().to_string();
    for part in ["http://", "weight", "region", "open to the network"] {
        assert!(error.contains(part), "{error}");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
