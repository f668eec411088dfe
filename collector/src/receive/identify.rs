//! Who sends: the principal behind a request, with what it may write and how much of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::ConnectInfo;
use axum::http::request;
use service::clock::SharedClock;
use service::error::Result;
use service::metrics::{Counter, Registry};
use service::principal::{Principal, Principals, Role};
use service::tls::Peer;

use super::quota::Meter;

/// The senders that the settings name. Without any the collector is open, on loopback only.
pub struct Writers {
    principals: Principals,
    known: BTreeMap<String, Arc<Writer>>,
}

/// A sender: its rights, its quotas and its counters.
pub(super) struct Writer {
    pub(super) principal: Arc<Principal>,
    pub(super) bytes: Option<Meter>,
    pub(super) items: Option<Meter>,
    pub(super) accepted_items: Counter,
    pub(super) rejected_items: Counter,
    pub(super) received_bytes: Counter,
    pub(super) throttled: Counter,
}

impl Writers {
    /// Everybody may send.
    pub fn open() -> Self {
        Self { principals: Principals::default(), known: BTreeMap::new() }
    }

    /// The writers among the principals.
    pub fn new(principals: &Principals, metrics: &Registry, clock: &SharedClock) -> Self {
        let writers = principals.iter().filter(|principal| principal.role == Role::Writer);
        let known = writers.map(|principal| (principal.name.clone(), Arc::new(Writer::new(principal, metrics, clock))));
        Self { principals: principals.clone(), known: known.collect() }
    }

    /// The sender of a request; `None` where nobody has to say.
    ///
    /// # Errors
    /// `Unauthenticated` without proof, `Denied` for a reader.
    pub(super) fn identify(&self, request: &request::Parts) -> Result<Option<Arc<Writer>>> {
        let peer = request.extensions.get::<ConnectInfo<Peer>>().map(|info| &info.0);
        let principal = self.principals.identify(Role::Writer, &request.headers, peer)?;
        Ok(principal.and_then(|principal| self.known.get(&principal.name).cloned()))
    }
}

impl Writer {
    fn new(principal: &Arc<Principal>, metrics: &Registry, clock: &SharedClock) -> Self {
        let counter = |name: &str, help: &str| {
            let labels = [("principal", principal.name.clone())];
            metrics.counter(&format!("tokenwatt_collector_principal_{name}"), help, &labels)
        };
        let meter = |rate: Option<u64>| rate.map(|rate| Meter::new(rate, principal.burst_s, Arc::clone(clock)));
        Self {
            bytes: meter(principal.bytes_per_s),
            items: meter(principal.items_per_s),
            accepted_items: counter("accepted_items_total", "Items of this sender acknowledged."),
            rejected_items: counter("rejected_items_total", "Items of this sender rejected by partial success."),
            received_bytes: counter("received_bytes_total", "Bytes of bodies of this sender, as they arrived."),
            throttled: counter("throttled_requests_total", "Requests of this sender refused for its quota."),
            principal: Arc::clone(principal),
        }
    }
}
