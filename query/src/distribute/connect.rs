//! The way to a worker: one connection each, with the token that both ends share.

use std::{collections::BTreeMap, error::Error as _, sync::Arc, time::Duration};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use datafusion::{
    common::{DataFusionError, Result},
    execution::TaskContext,
    physical_plan::metrics::ExecutionPlanMetricsSet,
};
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest, GetWorkerInfoResponse,
    SetPlanRequest, WorkerChannel, WorkerToCoordinatorMsg,
    grpc::{BoxCloneSyncChannel, create_worker_client},
};
use futures::{StreamExt, stream::BoxStream};
use http::{HeaderMap, Request, header};
use parking_lot::Mutex;
use service::{
    Error,
    uplink::{Credentials, Uplink},
};
use tonic::body::Body;
use tower::ServiceExt;
use url::Url;

use crate::error;

/// Time for a worker to take a part of a plan, or to say what it is.
const ANSWER: Duration = Duration::from_secs(30);
/// Workers that connections are kept to; with more, those at the end of the alphabet are made anew.
const CONNECTIONS_MAX: usize = 1_024;

/// Connections to workers.
pub(crate) struct Connections {
    credentials: Credentials,
    open: Mutex<BTreeMap<Url, BoxCloneSyncChannel>>,
}

impl Connections {
    pub(super) fn new(credentials: Credentials) -> Connections {
        Connections { credentials, open: Mutex::default() }
    }

    /// The connection to a worker, made when it is first used and again after it broke.
    fn to(&self, worker: &Url) -> service::Result<BoxCloneSyncChannel> {
        let mut open = self.open.lock();
        if let Some(known) = open.get(worker) {
            return Ok(known.clone());
        }
        let uplink = Uplink::new("query.workers", worker.as_str(), &self.credentials, ANSWER)?;
        let metadata = uplink.metadata().into_headers();
        let proof = metadata.get(header::AUTHORIZATION).cloned();
        let proven = move |mut request: Request<Body>| {
            if let Some(proof) = &proof {
                request.headers_mut().insert(header::AUTHORIZATION, proof.clone());
            }
            request
        };
        let channel = BoxCloneSyncChannel::new(uplink.channel().map_request(proven));
        if open.len() >= CONNECTIONS_MAX {
            open.pop_last();
        }
        open.insert(worker.clone(), channel.clone());
        Ok(channel)
    }
}

#[async_trait]
impl ChannelResolver for Connections {
    async fn get_worker_client_for_url(&self, worker: &Url) -> Result<Box<dyn WorkerChannel>, DataFusionError> {
        let unusable =
            |failed| error::from_lake(Error::invalid(format!("worker {worker} cannot be used")).with_source(failed));
        let client = self.to(worker).map(create_worker_client).map_err(unusable)?;
        Ok(Box::new(Named { client, worker: worker.clone() }))
    }
}

/// A worker whose faults are told with its name, also by a worker that has them from another.
struct Named {
    client: Box<dyn WorkerChannel>,
    worker: Url,
}

/// How the message about a worker that is gone ends, and that about one that says no.
const GONE: &str = "went away in the middle of the answer";
const REFUSED: &str = "did not do its part";

impl Named {
    fn named<T: Send + 'static>(
        &self,
        stream: BoxStream<'static, Result<T, DataFusionError>>,
    ) -> BoxStream<'static, Result<T, DataFusionError>> {
        let worker = self.worker.clone();
        stream.map(move |item| item.map_err(|failed| failed_at(&worker, failed))).boxed()
    }
}

#[async_trait]
impl WorkerChannel for Named {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        plan: SetPlanRequest,
        messages: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let opened = self.client.coordinator_channel(headers, plan, messages, metrics, context).await;
        opened.map(|answers| self.named(answers)).map_err(|failed| failed_at(&self.worker, failed))
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        task: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        let opened = self.client.execute_task(headers, task, metrics, context).await;
        let opened = opened.map_err(|failed| failed_at(&self.worker, failed))?;
        Ok(opened.into_iter().map(|batches| self.named(batches)).collect())
    }

    async fn get_worker_info(&mut self, request: GetWorkerInfoRequest) -> Result<GetWorkerInfoResponse> {
        self.client.get_worker_info(request).await
    }
}

/// What went wrong at a worker: what it said, or that it is gone.
fn failed_at(worker: &Url, failed: DataFusionError) -> DataFusionError {
    let DataFusionError::External(error) = failed.find_root() else { return failed };
    let said = error.to_string();
    let fault = match error.downcast_ref::<tonic::Status>() {
        Some(status) => {
            // What the connection says has a cause; what the worker says has none.
            let is_gone = status.source().is_some() || status.code() == tonic::Code::Unavailable;
            let fault = if is_gone { GONE } else { REFUSED };
            // Its words alone: an error of the engine as a source would be taken for the root of this one.
            Error::unavailable(format!("worker {} {fault}", worker.as_str().trim_end_matches('/')))
                .with_source(status.message())
        }
        // What a worker says of another comes as text.
        None if said.ends_with(GONE) || said.ends_with(REFUSED) => Error::unavailable(said),
        None => return failed,
    };
    error::from_lake(fault.with_hint("ask again: the others, or this process alone, will answer"))
}
