//! A node, the receiver of its telemetry, and a client.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use inference_node::Config;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{metric, number_data_point};
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use serde_json::Value;
use service::Deps;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// Longest time that anything may take before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Everything that was sent.
#[derive(Clone, Default)]
pub(crate) struct Received {
    pub(crate) traces: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    pub(crate) metrics: Arc<Mutex<Vec<ExportMetricsServiceRequest>>>,
    /// How many trace requests are still to be refused.
    pub(crate) refuse: Arc<Mutex<u32>>,
    /// How many trace requests are still to be called malformed.
    pub(crate) reject: Arc<Mutex<u32>>,
}

#[tonic::async_trait]
impl TraceService for Received {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut refuse = self.refuse.lock();
        if *refuse > 0 {
            *refuse -= 1;
            return Err(Status::unavailable("starting"));
        }
        let mut reject = self.reject.lock();
        if *reject > 0 {
            *reject -= 1;
            return Err(Status::invalid_argument("malformed"));
        }
        self.traces.lock().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Received {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.metrics.lock().push(request.into_inner());
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

impl Received {
    pub(crate) fn spans(&self) -> Vec<Span> {
        let traces = self.traces.lock();
        let scopes = traces.iter().flat_map(|body| &body.resource_spans).flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }

    pub(crate) fn named(&self, name: &str) -> Vec<Span> {
        self.spans().into_iter().filter(|span| span.name == name).collect()
    }

    /// Resource attributes of all trace requests, which must agree.
    pub(crate) fn resource(&self) -> HashMap<String, String> {
        let traces = self.traces.lock();
        let mut all: Vec<HashMap<String, String>> = traces
            .iter()
            .flat_map(|body| &body.resource_spans)
            .map(|resource| attributes(&resource.resource.as_ref().unwrap().attributes))
            .collect();
        all.dedup();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    /// Points of a metric in the order in which they were sent: time in nanoseconds, value, attributes.
    pub(crate) fn points(&self, name: &str) -> Vec<(u64, f64, HashMap<String, String>)> {
        let bodies = self.metrics.lock();
        let scopes = bodies.iter().flat_map(|body| &body.resource_metrics).flat_map(|resource| &resource.scope_metrics);
        let metrics = scopes.flat_map(|scope| &scope.metrics).filter(|metric| metric.name == name);
        let points = metrics.flat_map(|metric| match metric.data.as_ref().unwrap() {
            metric::Data::Gauge(gauge) => &gauge.data_points,
            metric::Data::Sum(sum) => &sum.data_points,
            _ => panic!("only gauges and sums are sent"),
        });
        points
            .map(|point| {
                let value = match point.value.unwrap() {
                    number_data_point::Value::AsInt(value) => value as f64,
                    number_data_point::Value::AsDouble(value) => value,
                };
                (point.time_unix_nano, value, attributes(&point.attributes))
            })
            .collect()
    }
}

/// Attributes as text.
pub(crate) fn attributes(pairs: &[KeyValue]) -> HashMap<String, String> {
    let text = |pair: &KeyValue| match pair.value.as_ref().unwrap().value.as_ref().unwrap() {
        any_value::Value::StringValue(text) => text.clone(),
        any_value::Value::IntValue(value) => value.to_string(),
        any_value::Value::DoubleValue(value) => value.to_string(),
        any_value::Value::BoolValue(value) => value.to_string(),
        any_value::Value::ArrayValue(array) => {
            let texts = array.values.iter().map(|value| match value.value.as_ref().unwrap() {
                any_value::Value::StringValue(text) => text.as_str(),
                _ => panic!("arrays hold texts"),
            });
            texts.collect::<Vec<_>>().join(",")
        }
        other => panic!("unexpected value {other:?}"),
    };
    pairs.iter().map(|pair| (pair.key.clone(), text(pair))).collect()
}

/// A whole number among the attributes of a span.
pub(crate) fn number(span: &Span, key: &str) -> u64 {
    attributes(&span.attributes)[key].parse().unwrap()
}

/// A running node.
pub(crate) struct World {
    pub(crate) url: String,
    pub(crate) grpc_url: String,
    pub(crate) received: Received,
    pub(crate) deps: Deps,
    pub(crate) client: reqwest::Client,
    running: JoinHandle<service::Result<()>>,
    collector: Option<JoinHandle<()>>,
}

impl World {
    /// A simulated node after `change`.
    pub(crate) async fn start(change: impl FnOnce(&mut Config)) -> Self {
        let received = Received::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let server = tonic::transport::Server::builder()
            .add_service(TraceServiceServer::new(received.clone()))
            .add_service(MetricsServiceServer::new(received.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        let collector = tokio::spawn(async move { server.await.unwrap() });
        let mut config = Config { otlp_endpoint: endpoint, ..Config::default() };
        config.http_addr.set_port(0);
        // A test that fails ends then, and does not wait for a receiver that is gone.
        config.record.give_up_after = PATIENCE;
        change(&mut config);
        let deps = Deps::system();
        let node = inference_node::build(config, deps.clone()).await.unwrap();
        let (url, grpc_url) = (format!("http://{}", node.http_addr()), format!("http://{}", node.grpc_addr()));
        let running = tokio::spawn(node.run());
        Self { url, grpc_url, received, deps, client: reqwest::Client::new(), running, collector: Some(collector) }
    }

    /// Waits until the node has ended by itself, and says why.
    pub(crate) async fn failed(&mut self) -> service::Error {
        let ended = tokio::time::timeout(PATIENCE, &mut self.running).await.unwrap();
        ended.unwrap().unwrap_err()
    }

    /// Posts a body.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> reqwest::Response {
        self.client.post(format!("{}{path}", self.url)).json(body).send().await.unwrap()
    }

    /// A chat of this many output tokens.
    pub(crate) fn chat_body(tokens: u32, stream: bool) -> Value {
        serde_json::json!({
            "model": "Llama-3-8B", "messages": [{"role": "user", "content": "Tell me about harbors."}],
            "max_tokens": tokens, "ignore_eos": true, "seed": 7, "stream": stream,
        })
    }

    pub(crate) async fn chat(&self, body: &Value) -> reqwest::Response {
        self.post("/v1/chat/completions", body).await
    }

    /// Ends the node in order; everything was sent when this returns.
    pub(crate) async fn end(mut self) -> Received {
        let late = self.deps.shutdown.walk(PATIENCE).await;
        assert_eq!(late, Vec::<String>::new());
        tokio::time::timeout(PATIENCE, self.running).await.unwrap().unwrap().unwrap();
        self.collector.take().unwrap().abort();
        self.received.clone()
    }
}

/// The JSON frames of a stream, without the closing mark, which must be there.
pub(crate) async fn frames(response: reqwest::Response) -> Vec<Value> {
    assert_eq!(response.status(), 200);
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("text/event-stream"));
    let text = response.text().await.unwrap();
    let mut frames: Vec<&str> =
        text.split_terminator("\n\n").map(|frame| frame.strip_prefix("data: ").unwrap()).collect();
    assert_eq!(frames.pop(), Some("[DONE]"));
    frames.into_iter().map(|frame| serde_json::from_str(frame).unwrap()).collect()
}

/// Reads a stream until text came, and leaves it open.
pub(crate) async fn first_text(
    response: reqwest::Response,
) -> impl futures::Stream<Item = reqwest::Result<bytes::Bytes>> + Unpin {
    let mut body = response.bytes_stream();
    let mut seen = String::new();
    while !seen.contains("\"content\":\"A") && seen.matches("data: ").count() < 3 {
        let bytes = tokio::time::timeout(PATIENCE, body.next()).await.unwrap().unwrap().unwrap();
        seen.push_str(std::str::from_utf8(&bytes).unwrap());
    }
    body
}
