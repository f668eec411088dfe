//! How a node ends, and what it does while the collector is away.

use futures::StreamExt;

use crate::world::{PATIENCE, World, first_text};

/// A stream that runs when the shutdown begins is finished, and all of it is recorded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_streams_are_finished() {
    let world = World::start(|_| {}).await;
    let mut stream = first_text(world.chat(&World::chat_body(40, true)).await).await;
    let reader = tokio::spawn(async move {
        let mut text = Vec::new();
        while let Some(bytes) = stream.next().await {
            text.extend(bytes.unwrap());
        }
        String::from_utf8(text).unwrap()
    });
    let received = world.end().await;
    let rest = tokio::time::timeout(PATIENCE, reader).await.unwrap().unwrap();
    assert!(rest.contains("\"finish_reason\":\"length\"") && rest.ends_with("data: [DONE]\n\n"), "{rest}");
    assert_eq!(received.named("token").len(), 40);
    assert_eq!(received.named("llm_request").len(), 1);
}

/// What the collector refuses for now is sent again until it is taken: nothing is lost, nothing doubled.
#[tokio::test]
async fn refused_batches_are_sent_again() {
    let world = World::start(|_| {}).await;
    *world.received.refuse.lock() = 3;
    world.chat(&World::chat_body(10, false)).await.text().await.unwrap();
    let refuse = world.received.refuse.clone();
    let received = world.end().await;
    assert_eq!(*refuse.lock(), 0, "the batches met the refusals");
    assert_eq!(received.named("token").len(), 10);
    assert_eq!(received.named("llm_request").len(), 1);
}

/// A batch that the collector will never take does not hold up those behind it, and is counted.
#[tokio::test]
async fn hopeless_batches_are_dropped_and_counted() {
    let world = World::start(|_| {}).await;
    *world.received.reject.lock() = 1;
    world.chat(&World::chat_body(1, false)).await.text().await.unwrap();
    let counted = async {
        loop {
            let page = world.client.get(format!("{}/metrics", world.url)).send().await.unwrap().text().await.unwrap();
            let line = page.lines().find(|line| line.starts_with("tokenwatt_node_spans_lost_total")).unwrap();
            if !line.ends_with(" 0") {
                return line.to_owned();
            }
        }
    };
    let line = tokio::time::timeout(PATIENCE, counted).await.unwrap();
    let lost: usize = line.rsplit(' ').next().unwrap().parse().unwrap();
    world.chat(&World::chat_body(5, false)).await.text().await.unwrap();
    let received = world.end().await;
    assert_eq!(received.spans().len() + lost, 1 + 5 + 2, "every span is either sent or counted");
    assert!(received.named("token").len() >= 5);
}

/// A port that is taken is a clear error, not a panic.
#[tokio::test]
async fn port_in_use() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = inference_node::Config { http_addr: taken.local_addr().unwrap(), ..Default::default() };
    let error = inference_node::build(config.clone(), service::Deps::system()).await.err().unwrap();
    assert_eq!(error.kind(), service::Kind::Conflict);
    config.engine.sim.model = "Llama-9".to_owned();
    config.http_addr.set_port(0);
    let error = inference_node::build(config, service::Deps::system()).await.err().unwrap();
    assert!(error.to_string().contains("Llama-9"), "{error}");
}
