//! A collector that takes everything and counts token spans, in a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use service::error::{Error, Result};
use service::shutdown::CancellationToken;
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// Name of the thread.
pub(super) const THREAD: &str = "bench.receiver";

/// Counts token spans.
#[derive(Clone, Default)]
pub(super) struct Receiver {
    tokens: Arc<AtomicU64>,
    stop: CancellationToken,
}

impl Receiver {
    /// Starts one on a free port. Returns it and its address.
    ///
    /// # Errors
    /// If there can be no port or thread.
    pub(super) async fn start() -> Result<(Self, String)> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
        let endpoint = format!("http://{}", listener.local_addr().map_err(failed)?);
        let listener = listener.into_std().map_err(failed)?;
        let receiver = Self::default();
        let own = receiver.clone();
        std::thread::Builder::new().name(THREAD.to_owned()).spawn(move || own.serve(listener)).map_err(failed)?;
        Ok((receiver, endpoint))
    }

    fn serve(self, listener: std::net::TcpListener) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let stop = self.stop.clone();
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).map_err(failed)?;
            let served = tonic::transport::Server::builder()
                .add_service(TraceServiceServer::new(self.clone()))
                .add_service(MetricsServiceServer::new(self))
                .serve_with_incoming_shutdown(TcpIncoming::from(listener), stop.cancelled_owned())
                .await;
            served.map_err(|error| Error::internal("the receiver broke").with_source(error))
        })
    }

    /// Ends it. Returns how many token spans came.
    pub(super) fn finish(self) -> u64 {
        self.stop.cancel();
        self.tokens.load(Ordering::Relaxed)
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::internal("set up the receiver").with_source(error)
}

#[tonic::async_trait]
impl TraceService for Receiver {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> std::result::Result<Response<ExportTraceServiceResponse>, Status> {
        let body = request.into_inner();
        let scopes = body.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
        let tokens = scopes.flat_map(|scope| &scope.spans).filter(|span| span.name == telemetry::names::SPAN_TOKEN);
        self.tokens.fetch_add(tokens.count() as u64, Ordering::Relaxed);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Receiver {
    async fn export(
        &self,
        _: Request<ExportMetricsServiceRequest>,
    ) -> std::result::Result<Response<ExportMetricsServiceResponse>, Status> {
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}
