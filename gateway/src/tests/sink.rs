//! A collector that keeps what it gets: a real OTLP/gRPC server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Code, Request, Response, Status};

/// A running collector.
pub(super) struct Sink {
    pub(super) url: String,
    requests: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
}

#[derive(Clone)]
struct Keep {
    requests: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    /// What the first requests are answered with, in this order.
    refusals: Arc<Mutex<VecDeque<Code>>>,
}

#[tonic::async_trait]
impl TraceService for Keep {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        if let Some(code) = self.refusals.lock().pop_front() {
            return Err(Status::new(code, "as the test wants it"));
        }
        self.requests.lock().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Sink {
    pub(super) async fn start() -> Self {
        Self::refusing(&[]).await
    }

    /// One that answers its first requests with these codes.
    pub(super) async fn refusing(codes: &[Code]) -> Self {
        let requests = Arc::new(Mutex::default());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = TraceServiceServer::new(Keep {
            requests: Arc::clone(&requests),
            refusals: Arc::new(Mutex::new(codes.iter().copied().collect())),
        });
        let server = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        Self { url, requests }
    }

    /// The one span that came, and its resource's attributes.
    pub(super) fn only_span(&self) -> (BTreeMap<String, String>, Span) {
        let requests = self.requests.lock();
        let groups: Vec<_> = requests.iter().flat_map(|request| &request.resource_spans).collect();
        let spans: Vec<&Span> =
            groups.iter().flat_map(|group| &group.scope_spans).flat_map(|scope| &scope.spans).collect();
        assert_eq!((groups.len(), spans.len()), (1, 1), "{requests:?}");
        (attributes(&groups[0].resource.as_ref().unwrap().attributes), spans[0].clone())
    }
}

/// Attributes as plain texts.
pub(super) fn attributes(list: &[KeyValue]) -> BTreeMap<String, String> {
    list.iter().map(|pair| (pair.key.clone(), text(pair.value.as_ref().unwrap()))).collect()
}

fn text(value: &AnyValue) -> String {
    match value.value.as_ref().unwrap() {
        Value::StringValue(text) => text.clone(),
        Value::BoolValue(value) => value.to_string(),
        Value::IntValue(value) => value.to_string(),
        Value::DoubleValue(value) => value.to_string(),
        Value::ArrayValue(list) => format!("[{}]", list.values.iter().map(text).collect::<Vec<_>>().join(",")),
        other => format!("{other:?}"),
    }
}
