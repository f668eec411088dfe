//! gRPC's health protocol, as clients of it ask.

use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

use crate::world::{PATIENCE, World};

#[derive(Clone, PartialEq, prost::Message)]
struct Asked {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Answer {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// The statuses that a watcher of `service` is told.
async fn watch(world: &World, service: &str) -> tonic::Streaming<Answer> {
    let channel = Endpoint::from_shared(world.grpc_url.clone()).unwrap().connect().await.unwrap();
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let path = "/grpc.health.v1.Health/Watch".parse().unwrap();
    let asked = tonic::Request::new(Asked { service: service.to_owned() });
    client.server_streaming(asked, path, ProstCodec::<Asked, Answer>::default()).await.unwrap().into_inner()
}

/// Who watches is told at once that the node takes calls, and before the stream ends that it does not any more; of a service that
/// is not there, that it is unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_is_watched() {
    let world = World::start(|_| {}).await;
    let mut unknown = watch(&world, "nobody").await;
    assert_eq!(unknown.message().await.unwrap().unwrap().status, 3);
    drop(unknown);
    let mut told = watch(&world, "inference.GRPCInferenceService").await;
    assert_eq!(told.message().await.unwrap().unwrap().status, 1);
    let rest = tokio::spawn(async move {
        let mut rest = Vec::new();
        while let Some(answer) = told.message().await.unwrap() {
            rest.push(answer.status);
        }
        rest
    });
    world.end().await;
    assert_eq!(tokio::time::timeout(PATIENCE, rest).await.unwrap().unwrap(), [2]);
}
