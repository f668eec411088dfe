//! Which workers there are: listed, by a DNS name, or as the endpoints of a Kubernetes service; those that answer, in one version.

mod kubernetes;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use datafusion_distributed::{ChannelResolver, GetWorkerInfoRequest};
use parking_lot::RwLock;
use service::{Deps, Error, Result, clock::SharedClock, error::chain, shutdown::Stage};
use tokio::time::timeout;
use url::Url;

use super::{Settings, connect::Connections, version};
use kubernetes::Endpoints;

/// How often workers are looked for, and asked what they are.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Time for a worker to say what it is.
const INFO: Duration = Duration::from_secs(3);
/// Most workers of a query.
const WORKERS_MAX: usize = 256;

/// The workers that can be used now.
pub(crate) struct Cluster {
    settings: Settings,
    connections: Arc<Connections>,
    ready: RwLock<Arc<[Url]>>,
    /// What is wrong with the others, so that it is said once.
    refused: RwLock<BTreeMap<Url, String>>,
    /// Queries that were spread, and those of them that this process had to answer alone after all.
    spread: AtomicU64,
    tried_again: AtomicU64,
}

impl Cluster {
    /// The workers that the settings lead to; nobody has been asked yet.
    pub(crate) fn new(settings: Settings) -> Arc<Cluster> {
        let connections = Arc::new(Connections::new(settings.credentials()));
        let (spread, tried_again) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Cluster {
            settings,
            connections,
            ready: RwLock::default(),
            refused: RwLock::default(),
            spread,
            tried_again,
        })
    }

    /// Looks for workers in the background, where there is a way to find one.
    pub(crate) fn watch(self: &Arc<Self>, deps: &Deps) {
        if !self.settings.is_used() {
            return;
        }
        let cluster = Arc::clone(self);
        self.observe(deps);
        let (stop, clock) = (deps.shutdown.token(Stage::Query), Arc::clone(&deps.clock));
        deps.tasks.spawn("query.workers", async move {
            // Cancel safe: a look changes the list in one step.
            tokio::select! {
                () = cluster.look_on(clock) => (),
                () = stop.cancelled() => (),
            }
        });
    }

    fn observe(self: &Arc<Self>, deps: &Deps) {
        let measure = |name: &str, help: &str, of: fn(&Cluster) -> f64| {
            let cluster = Arc::downgrade(self);
            deps.metrics.observe(name, help, &[], move || cluster.upgrade().map(|cluster| of(&cluster)));
        };
        let help = "Workers that answer and are of this process's version.";
        measure("tokenwatt_query_workers", help, |cluster| cluster.ready().len() as f64);
        let help = "Queries that were spread over workers since the process began.";
        measure("tokenwatt_query_spread", help, |cluster| cluster.spread() as f64);
        let help =
            "Of those, queries that failed on workers before their first row and were answered by this process alone.";
        measure("tokenwatt_query_spread_again", help, |cluster| cluster.tried_again() as f64);
    }

    /// Queries that were spread over workers.
    pub(crate) fn spread(&self) -> u64 {
        self.spread.load(Ordering::Relaxed)
    }

    /// Those of them that failed there before their first row.
    pub(crate) fn tried_again(&self) -> u64 {
        self.tried_again.load(Ordering::Relaxed)
    }

    /// A query begins on workers, or is taken back from them.
    pub(crate) fn count(&self, is_again: bool) {
        let counter = if is_again { &self.tried_again } else { &self.spread };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// What is wrong with workers that are left out.
    #[cfg(test)]
    pub(crate) fn faults(&self) -> BTreeMap<Url, String> {
        self.refused.read().clone()
    }

    /// Takes these for workers without asking them.
    #[cfg(test)]
    pub(crate) fn believe(&self, workers: &[String]) {
        *self.ready.write() = workers.iter().map(|worker| Url::parse(worker).expect("a url")).collect();
    }

    /// The workers for a query that begins now, in the order of their addresses.
    pub(crate) fn ready(&self) -> Arc<[Url]> {
        Arc::clone(&self.ready.read())
    }

    pub(super) fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    async fn look_on(&self, clock: SharedClock) {
        loop {
            self.look().await;
            clock.sleep(LOOK_EVERY).await;
        }
    }

    /// Finds workers and asks each what it is.
    pub(crate) async fn look(&self) {
        let found = match self.found().await {
            Ok(found) => found,
            // Those that are known stay until it is known that there are others.
            Err(failed) => {
                tracing::warn!(error = chain(&failed), "workers cannot be looked up; those known are used on");
                self.ready().to_vec()
            }
        };
        let found: BTreeSet<Url> = found.into_iter().take(WORKERS_MAX).collect();
        let asked = found.into_iter().map(|worker| async move {
            let fault = self.fault(&worker).await;
            (worker, fault)
        });
        let mut ready = Vec::new();
        let mut refused = BTreeMap::new();
        for (worker, fault) in futures::future::join_all(asked).await {
            match fault {
                None => ready.push(worker),
                Some(fault) => {
                    if self.refused.read().get(&worker) != Some(&fault) {
                        tracing::warn!(worker = worker.as_str(), fault, "a worker is left out");
                    }
                    refused.insert(worker, fault);
                }
            }
        }
        *self.refused.write() = refused;
        *self.ready.write() = ready.into();
    }

    async fn found(&self) -> Result<Vec<Url>> {
        let Settings { list, dns, kubernetes, tls, .. } = &self.settings;
        let scheme = if *tls { "https" } else { "http" };
        let url = |text: &str| {
            Url::parse(text).map_err(|error| Error::invalid(format!("`{text}` is no address")).with_source(error))
        };
        let mut found = list.iter().map(|worker| url(worker)).collect::<Result<Vec<_>>>()?;
        if let Some((host, port)) = dns.as_deref().and_then(host_and_port) {
            let failed = |error| Error::unavailable(format!("look up {host}")).with_source(error);
            for addr in tokio::net::lookup_host((host, port)).await.map_err(failed)? {
                found.push(url(&format!("{scheme}://{addr}"))?);
            }
        }
        if let Some((namespace, service, port)) = kubernetes.as_deref().and_then(service_and_port) {
            for addr in Endpoints::of_pod()?.ready(namespace, service, port).await? {
                found.push(url(&format!("{scheme}://{addr}"))?);
            }
        }
        Ok(found)
    }

    /// Why the worker cannot be used; `None` if it can.
    async fn fault(&self, worker: &Url) -> Option<String> {
        let asked = async {
            let mut client = self.connections.get_worker_client_for_url(worker).await?;
            client.get_worker_info(GetWorkerInfoRequest {}).await
        };
        let own = version();
        match timeout(INFO, asked).await {
            Ok(Ok(info)) if info.version == own => None,
            Ok(Ok(info)) => Some(format!("it is of version {}, this process of {own}", info.version)),
            Ok(Err(error)) => Some(format!("it does not answer: {error}")),
            Err(_) => Some(format!("it did not answer within {} s", INFO.as_secs())),
        }
    }
}

/// `host:port` apart.
pub(super) fn host_and_port(name: &str) -> Option<(&str, u16)> {
    let (host, port) = name.rsplit_once(':')?;
    Some((host, port.parse().ok()?)).filter(|(host, _)| !host.is_empty())
}

/// `namespace/service:port` apart.
pub(super) fn service_and_port(name: &str) -> Option<(&str, &str, u16)> {
    let (namespace, rest) = name.split_once('/')?;
    let (service, port) = host_and_port(rest)?;
    let is_name = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.'))
    };
    Some((namespace, service, port)).filter(|_| is_name(namespace) && is_name(service))
}
