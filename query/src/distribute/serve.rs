//! The worker: takes parts of queries, proves who sends them, and runs them within this process's limits.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::{Request, State},
    http::header,
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use datafusion::{
    common::{
        Result, exec_datafusion_err,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    execution::{FunctionRegistry, SessionState, memory_pool::MemoryPool},
    physical_plan::ExecutionPlan,
};
use datafusion_distributed::{
    DistributedExt, Worker as Distributed, WorkerPlanRewriteEvent, WorkerPlanRewriteEventResponse, WorkerQueryContext,
    WorkerSessionBuilder,
};
use http::{HeaderMap, HeaderName};
use service::{Error, listen::Bounds, secret::Secret, shutdown::Stage};
use tokio::net::TcpListener;
use tonic::{Status, service::Routes};

use super::{
    codec::OwnOperators,
    connect::Connections,
    part::{Parts, watched},
    version,
};
use crate::{
    execute::{Engine, guard::guarded, stoppable::stoppable},
    functions, scan,
};

/// The header in which the query's time zone travels.
pub(super) const TIME_ZONE: &str = "x-tokenwatt-time-zone";

/// The port on which parts of queries come in, bound and not yet served.
pub struct Worker {
    listener: TcpListener,
    addr: SocketAddr,
    engine: Arc<Engine>,
}

impl Worker {
    /// # Errors
    /// `Conflict` when the port is in use, `Denied` when it needs rights, `Invalid` when the machine has no such address.
    pub(crate) async fn bind(engine: Arc<Engine>) -> service::Result<Worker> {
        let listener = service::listen::bind(engine.config.workers.addr).await?;
        let addr =
            listener.local_addr().map_err(|error| Error::internal("read the bound address").with_source(error))?;
        Ok(Worker { listener, addr, engine })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves on the threads for queries until the last stage of the shutdown.
    pub fn spawn(self) {
        let Worker { listener, engine, .. } = self;
        let deps = engine.deps.clone();
        let health = deps.health.component("query.worker");
        let (hold, stop) = (deps.shutdown.hold(Stage::Query, "query.worker"), deps.shutdown.token(Stage::Query));
        let tls = deps.tls.clone();
        // Who asks is one of ours, and may well leave one part's answer lying while it waits for another's.
        let bounds = Bounds { stall: None, ..Bounds::from(deps.limits) };
        let router = router(&engine);
        let threads = Arc::clone(&engine);
        deps.tasks.spawn("query.worker", async move {
            health.ready();
            let outcome = threads
                .on_query_threads(
                    async move { Ok(service::listen::serve_http(listener, &tls, bounds, router, stop).await) },
                )
                .await;
            drop(hold);
            match outcome {
                Ok(Ok(())) => {}
                Ok(Err(failed)) => {
                    tracing::error!(error = service::error::chain(&failed), "the port of workers is no longer served");
                }
                Err(failed) => tracing::error!(error = failed.message, "the port of workers is no longer served"),
            }
        });
    }
}

/// The gRPC routes of a worker, behind the token.
fn router(engine: &Arc<Engine>) -> Router {
    let parts = Parts::of(engine);
    let sessions = Sessions { engine: Arc::clone(engine), parts: Arc::clone(&parts) };
    let worker =
        Distributed::from_session_builder(sessions).with_runtime_env(engine.shared().runtime()).with_version(version());
    let token = Arc::new(engine.config.workers.token.clone().unwrap_or_default());
    let routes = Routes::new(worker.into_worker_server()).prepare().into_axum_router();
    let watched = middleware::from_fn_with_state(parts, watched);
    routes.layer(watched).layer(middleware::from_fn_with_state(token, proven))
}

/// Lets through who shows the token that both ends share.
async fn proven(State(token): State<Arc<Secret>>, request: Request, next: Next) -> Response {
    let shown =
        request.headers().get(header::AUTHORIZATION).and_then(|shown| shown.as_bytes().strip_prefix(b"Bearer "));
    if !shown.is_some_and(|shown| token.matches(shown)) {
        let refusal = Status::unauthenticated("a worker takes plans from those alone who share query.workers.token");
        return refusal.into_http::<axum::body::Body>().into_response();
    }
    next.run(request).await
}

/// Makes the session that a part of a query runs in.
struct Sessions {
    engine: Arc<Engine>,
    parts: Arc<Parts>,
}

#[async_trait::async_trait]
impl WorkerSessionBuilder for Sessions {
    async fn build_session_state(&self, context: WorkerQueryContext) -> Result<SessionState> {
        let engine = &self.engine;
        let running = self.parts.of_request(&context.headers);
        let running = running.ok_or_else(|| exec_datafusion_err!("nobody waits for this part of a query"))?;
        let memory = Arc::clone(&running.memory) as Arc<dyn MemoryPool>;
        let shared = engine.shared().within(memory)?;
        let mut builder = context.builder.with_runtime_env(shared.runtime());
        let settings = builder.config().get_or_insert_default();
        settings.options_mut().execution = shared.execution_settings();
        let mut headers = HeaderMap::new();
        if let Some(zone) = context.headers.get(TIME_ZONE) {
            settings.options_mut().execution.time_zone = zone.to_str().ok().map(str::to_owned);
            headers.insert(HeaderName::from_static(TIME_ZONE), zone.clone());
        }
        let opened = shared.clone();
        let mut state = builder
            .with_distributed_user_codec(OwnOperators)
            // Connections of its own: a stream that nobody reads for a while holds up those beside it.
            .with_distributed_channel_resolver(Connections::new(engine.config.workers.credentials()))
            .with_distributed_passthrough_headers(headers)?
            .with_distributed_worker_plan_rewrite_handler(move |event: WorkerPlanRewriteEvent<'_>| {
                let plan = guarded(reopened(event.plan, &opened)?)?;
                stoppable(plan, &running).map(WorkerPlanRewriteEventResponse::new)
            })
            .build();
        let column_bytes_max = engine.config.column_bytes_max;
        shared.teach(&mut state)?;
        for function in functions::of_plans() {
            state.register_udf(function)?;
        }
        let bounded: Vec<_> = state
            .scalar_functions()
            .values()
            .filter_map(|function| functions::bounded::of(function, column_bytes_max))
            .collect();
        for function in bounded {
            state.register_udf(function)?;
        }
        Ok(state)
    }
}

/// The plan with its scans reading through what this process keeps of files.
fn reopened(plan: Arc<dyn ExecutionPlan>, shared: &crate::session::Shared) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| match scan::reopened(&node, &shared.runtime())? {
        Some(node) => Ok(Transformed::yes(node)),
        None => Ok(Transformed::no(node)),
    })
    .data()
}
