//! gRPC's health protocol: whether the node takes calls, asked once or told whenever it changes.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use futures::{Stream, stream};
use tonic::Status;
use tonic::server::Grpc;
use tonic_prost::ProstCodec;

use super::wire::{HealthRequest, HealthResponse, NOT_SERVING, SERVICE, SERVICE_UNKNOWN, SERVING};
use super::{Desk, Desked, unary};

/// How often a change is looked for.
const LOOK: Duration = Duration::from_millis(200);

/// `grpc.health.v1.Health/Check`.
pub(super) async fn check(State(desk): Desked, request: Request) -> Response {
    let answer = |asked: HealthRequest, _| {
        ready(match desk.serving(&asked.service) {
            SERVICE_UNKNOWN => Err(Status::not_found(format!("this node has no service `{}`", asked.service))),
            status => Ok(HealthResponse { status }),
        })
    };
    unary(request, answer).await
}

/// `grpc.health.v1.Health/Watch`: the status at once, then each time it is another, until the node goes down, which is told last.
pub(super) async fn watch(State(desk): Desked, request: Request) -> Response {
    let mut grpc = Grpc::new(ProstCodec::<HealthResponse, HealthRequest>::default());
    let service = tower::service_fn(|request: tonic::Request<HealthRequest>| {
        let told = statuses(Arc::clone(&desk), request.into_inner().service);
        async move { Ok::<_, Status>(tonic::Response::new(told)) }
    });
    grpc.server_streaming(service, request).await.map(Body::new)
}

fn statuses(desk: Arc<Desk>, service: String) -> impl Stream<Item = Result<HealthResponse, Status>> + Send {
    let closing = desk.entrance.closing.clone();
    stream::unfold((desk, service, None), move |(desk, service, told)| {
        let closing = closing.clone();
        async move {
            loop {
                let (status, is_last) = (desk.serving(&service), closing.is_cancelled());
                if told != Some(status) {
                    return Some((Ok(HealthResponse { status }), (desk, service, Some(status))));
                }
                if is_last {
                    return None;
                }
                let _ = tokio::time::timeout(LOOK, closing.cancelled()).await;
            }
        }
    })
}

impl Desk {
    /// The status of a service; the node itself has no name.
    fn serving(&self, service: &str) -> i32 {
        match service {
            "" | SERVICE if self.health.ready() && !self.entrance.closing.is_cancelled() => SERVING,
            "" | SERVICE => NOT_SERVING,
            _ => SERVICE_UNKNOWN,
        }
    }
}
