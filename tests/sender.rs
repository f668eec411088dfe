//! A client that knows what was acknowledged: it sends again, the same bytes, whatever got no answer.

use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::otlp;
use crate::world::{PATIENCE, unix_ns};

/// Calls, log records and metric points in one round of requests.
const ROUND: u64 = 10;

/// Sends rounds of calls, logs and metrics with keys of their own.
pub(crate) struct Sender {
    run: u64,
    next: u64,
    /// A round that was sent and not, or not wholly, acknowledged.
    pending: Option<Round>,
}

struct Round {
    from: u64,
    now_ns: u64,
    /// Requests of the round that were acknowledged: traces, logs, metrics in this order.
    acknowledged: usize,
}

impl Sender {
    pub(crate) fn new(run: u64) -> Sender {
        Sender { run, next: 0, pending: None }
    }

    /// Rows of each kind acknowledged so far; only whole rounds count.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.next - if self.pending.is_some() { ROUND } else { 0 }
    }

    /// Sends rounds until the server is gone or `rounds` are acknowledged. Whatever was not acknowledged is sent first,
    /// with the bytes it had.
    pub(crate) async fn send(&mut self, endpoint: &str, rounds: u64) -> Result<(), Status> {
        let channel = connect(endpoint).await?;
        for _ in 0..rounds {
            self.round(&channel).await?;
        }
        Ok(())
    }

    /// Sends what is pending, if anything is; a collector that is starting is asked again, as its answer says.
    pub(crate) async fn settle(&mut self, endpoint: &str) -> Result<(), Status> {
        let deadline = Instant::now() + PATIENCE;
        while self.pending.is_some() {
            let channel = connect(endpoint).await?;
            match self.round(&channel).await {
                Err(status) if status.code() == Code::Unavailable && Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                outcome => outcome?,
            }
        }
        Ok(())
    }

    async fn round(&mut self, channel: &Channel) -> Result<(), Status> {
        let round = self.pending.get_or_insert_with(|| {
            let from = self.next;
            self.next += ROUND;
            Round { from, now_ns: unix_ns(), acknowledged: 0 }
        });
        let (run, from, to, now_ns) = (self.run, round.from, round.from + ROUND, round.now_ns);
        if round.acknowledged == 0 {
            let mut client = TraceServiceClient::new(channel.clone());
            let answer = client.export(otlp::calls(run, from, to, now_ns)).await?;
            assert_eq!(answer.into_inner().partial_success, None);
            round.acknowledged = 1;
        }
        if round.acknowledged == 1 {
            let mut client = LogsServiceClient::new(channel.clone());
            let answer = client.export(otlp::logs(run, from, to, now_ns)).await?;
            assert_eq!(answer.into_inner().partial_success, None);
            round.acknowledged = 2;
        }
        let mut client = MetricsServiceClient::new(channel.clone());
        let answer = client.export(otlp::metrics(run, from, to, now_ns)).await?;
        assert_eq!(answer.into_inner().partial_success, None);
        self.pending = None;
        Ok(())
    }
}

/// Connects, with patience for a server that is just starting.
pub(crate) async fn connect(endpoint: &str) -> Result<Channel, Status> {
    let endpoint = tonic::transport::Endpoint::from_shared(endpoint.to_owned()).expect("an address");
    let endpoint = endpoint.connect_timeout(Duration::from_secs(5)).timeout(Duration::from_secs(30));
    endpoint.connect().await.map_err(|error| Status::unavailable(error.to_string()))
}
