//! Threads of their own for queries, so that planning and decoding never hold up what else the process serves: in one
//! process with gateways and a collector, a plan that takes 100 ms would show up as time to first token.

use std::{future::Future, io};

use datafusion::common::DataFusionError;
use service::Error;
use telemetry::contract::ApiError;
use tokio::{
    runtime::{Builder, Runtime},
    task::{JoinError, JoinSet},
};

use crate::error;

/// Stack of a thread. A long chain of operators is a tree as deep as it is long, and planning, and dropping, descends it.
const STACK_BYTES: usize = 64 << 20;

pub(super) struct Workers {
    /// Taken when dropped.
    runtime: Option<Runtime>,
}

/// A future on its way. Dropped, it stops at its next await.
pub(super) struct Work<T> {
    only: JoinSet<Result<T, ApiError>>,
}

impl Workers {
    /// # Errors
    /// What the system says when it gives no more threads.
    pub(super) fn start(threads: usize) -> io::Result<Workers> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads).thread_name("query").thread_stack_size(STACK_BYTES).enable_all();
        let runtime = builder.build()?;
        Ok(Workers { runtime: Some(runtime) })
    }

    /// Starts the future on these threads. One that panics is an error of its query alone.
    pub(super) fn work<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T, ApiError>> + Send + 'static,
    ) -> Work<T> {
        let mut only = JoinSet::new();
        if let Some(runtime) = &self.runtime {
            only.spawn_on(future, runtime.handle());
        }
        Work { only }
    }
}

impl<T: 'static> Work<T> {
    /// What came of it.
    ///
    /// # Cancel safety
    /// Cancel safe: the future goes on, and its outcome is there for the next call.
    pub(super) async fn outcome(&mut self) -> Result<T, ApiError> {
        match self.only.join_next().await {
            Some(Ok(outcome)) => outcome,
            Some(Err(error)) => Err(error::to_api(&failure(error))),
            None => Err(error::to_api(&error::from_lake(Error::internal("the query ended without an outcome")))),
        }
    }
}

fn failure(error: JoinError) -> DataFusionError {
    match error.try_into_panic() {
        Ok(payload) => {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            error::panicked(text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("no reason given"))
        }
        Err(error) => DataFusionError::External(Box::new(error)),
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting for its threads is not allowed where futures run.
            runtime.shutdown_background();
        }
    }
}
