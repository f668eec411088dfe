//! A finished plan cut into stages for workers.

use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use datafusion::{
    catalog::Session,
    common::{DataFusionError, Result},
    execution::{SessionState, SessionStateBuilder, context::QueryPlanner},
    logical_expr::LogicalPlan,
    physical_plan::{ExecutionPlan, SendableRecordBatchStream, stream::RecordBatchStreamAdapter},
};
use datafusion_distributed::{
    DistributedExec, DistributedExt, NetworkBoundaryExt, SessionStateBuilderExt, WorkerResolver,
};
use futures::{StreamExt, stream};
use http::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::{
    assign::Assigned,
    codec::OwnOperators,
    depth::{DEPTH_MAX, deepest_stage},
    find::Cluster,
    serve::TIME_ZONE,
    sorted::sorted_whole,
};
use crate::execute::running::Running;

/// Most stages of a plan that is spread. Each is a session, a connection and a share of memory at every worker before the first row;
/// with more, one machine is done before the others have begun.
const STAGES_MAX: usize = 16;
/// Partitions of a plan that can be cut.
const PARTITIONS_MIN: usize = 2;

/// How one query is spread over workers.
pub(crate) struct Spread {
    cluster: Arc<Cluster>,
    assigned: Assigned,
}

impl Spread {
    /// Over the workers that are there now; `None` without any.
    pub(crate) fn over(cluster: &Arc<Cluster>) -> Option<Spread> {
        let workers = cluster.ready();
        (!workers.is_empty()).then(|| Spread { cluster: Arc::clone(cluster), assigned: Assigned { workers } })
    }

    /// What a session must do without, so that its plans can be spread.
    pub(crate) fn prepare(state: &mut SessionState) {
        // A scalar that one part of a plan computes for the others does not travel; as a join it does.
        let options = state.config_mut().options_mut();
        options.optimizer.enable_physical_uncorrelated_scalar_subquery = false;
        // A plan is cut where its partitions meet; with one there is no such place.
        options.execution.target_partitions = options.execution.target_partitions.max(PARTITIONS_MIN);
    }

    /// The plan in stages, and the session that it runs in; `None` if it is too small for another machine, or cannot be cut.
    ///
    /// # Errors
    /// A plan that cannot travel.
    pub(crate) async fn cut(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        logical: &LogicalPlan,
        state: &SessionState,
    ) -> Result<Option<(Arc<dyn ExecutionPlan>, SessionState)>> {
        let state = SessionStateBuilder::new_from_existing(state.clone())
            .with_query_planner(Arc::new(Made(sorted_whole(Arc::clone(plan))?)))
            .with_distributed_worker_resolver(Fixed(Arc::clone(&self.assigned.workers)))
            .with_distributed_channel_resolver(Channels(Arc::clone(&self.cluster)))
            .with_distributed_user_codec(OwnOperators)
            .with_distributed_file_scan_config_bytes_per_partition(self.cluster.settings().part_bytes)?
            .with_distributed_metrics_collection(false)?
            .with_distributed_passthrough_headers(told(&state.config_options().execution.time_zone)?)?
            .with_distributed_scale_up_leaf_node_handler(self.assigned.clone())
            .with_distributed_route_tasks_handler(self.assigned.clone())
            .with_distributed_planner()
            .build();
        let cut = state.query_planner().create_physical_plan(logical, &state).await?;
        let (stages, depth) = (stages(&cut), deepest_stage(&cut)?);
        tracing::debug!(stages, depth, "a plan was cut");
        let fits = stages <= STAGES_MAX && depth <= DEPTH_MAX;
        Ok((cut.is::<DistributedExec>() && fits).then_some((cut, state)))
    }
}

fn stages(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let below: usize = plan.children().into_iter().map(stages).sum();
    below + usize::from(plan.is_network_boundary())
}

/// What workers must know of the session, beside the plan.
fn told(time_zone: &Option<String>) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    if let Some(zone) = time_zone {
        let value = HeaderValue::from_str(zone).map_err(|error| DataFusionError::External(Box::new(error)))?;
        headers.insert(HeaderName::from_static(TIME_ZONE), value);
    }
    Ok(headers)
}

/// Plans nothing: gives the plan that is there.
#[derive(Debug)]
struct Made(Arc<dyn ExecutionPlan>);

#[async_trait]
impl QueryPlanner for Made {
    async fn create_physical_plan(&self, _: &LogicalPlan, _: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::clone(&self.0))
    }
}

/// The workers that there were when the query began.
struct Fixed(Arc<[Url]>);

impl WorkerResolver for Fixed {
    fn get_urls(&self) -> Result<Vec<Url>> {
        Ok(self.0.to_vec())
    }
}

/// The cluster's connections.
struct Channels(Arc<Cluster>);

#[async_trait]
impl datafusion_distributed::ChannelResolver for Channels {
    async fn get_worker_client_for_url(&self, worker: &Url) -> Result<Box<dyn datafusion_distributed::WorkerChannel>> {
        self.0.connections().get_worker_client_for_url(worker).await
    }
}

/// The stream, ended by an error once the query was told to stop: a stream from another machine may have nothing to say for long.
pub(crate) fn unless_stopped(stream: SendableRecordBatchStream, running: &Arc<Running>) -> SendableRecordBatchStream {
    let schema = stream.schema();
    let running = Arc::clone(running);
    let batches = stream::unfold(Some(stream), move |stream| {
        let running = Arc::clone(&running);
        async move {
            let mut stream = stream?;
            let next: Option<Result<RecordBatch>> = tokio::select! {
                next = stream.next() => next,
                () = running.until_stopped() => running.check().err().map(Err),
            };
            let is_last = !matches!(next, Some(Ok(_)));
            next.map(|next| (next, (!is_last).then_some(stream)))
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}
