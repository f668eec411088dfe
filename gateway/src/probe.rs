//! Looks at every node's `/readyz` and says whether it can take calls. Each node has its own task, so one that hangs delays no
//! other.

use std::sync::Arc;
use std::time::Duration;

use service::Deps;
use service::shutdown::Stage;

use crate::Gateway;
use crate::nodes::Node;

/// Looks in a row that must fail before a node is left out; one good look brings it back.
const FAILURES: u32 = 2;

pub(crate) fn spawn(gateway: &Arc<Gateway>, deps: &Deps) {
    for node in gateway.fleet.nodes() {
        let (gateway, node) = (Arc::clone(gateway), Arc::clone(node));
        let stop = deps.shutdown.token(Stage::Accept);
        deps.tasks.spawn(format!("gateway.probe {}", node.url), async move {
            // Dropping a look in the middle of it is safe: it holds nothing.
            tokio::select! {
                () = stop.cancelled() => {}
                () = watch(&gateway, &node) => {}
            }
        });
    }
}

async fn watch(gateway: &Gateway, node: &Node) {
    let mut failures = 0;
    loop {
        let ready = look(gateway, node).await;
        failures = if ready { 0 } else { failures + 1 };
        if ready && !node.set_usable(true) {
            tracing::info!(node = node.url, "node takes calls again");
        }
        if failures >= FAILURES && node.set_usable(false) {
            tracing::warn!(node = node.url, "node does not answer /readyz and gets no calls");
        }
        tokio::time::sleep(spread(gateway.config.probe_every)).await;
    }
}

async fn look(gateway: &Gateway, node: &Node) -> bool {
    let answer =
        gateway.forwarder.client().get(format!("{}/readyz", node.url)).timeout(gateway.config.probe_timeout).send();
    answer.await.is_ok_and(|response| response.status().is_success())
}

/// Within a tenth of `every`, so that many gateways do not look at the same moment.
fn spread(every: Duration) -> Duration {
    every.mul_f64(0.95 + 0.1 * rand::random::<f64>())
}
