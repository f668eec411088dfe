//! The way to a worker: one connection each, with the token that both ends share.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result};
use datafusion_distributed::{
    ChannelResolver, WorkerChannel,
    grpc::{BoxCloneSyncChannel, create_worker_client},
};
use http::{Request, header};
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
        self.to(worker).map(create_worker_client).map_err(unusable)
    }
}
