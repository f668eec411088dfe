//! The nodes, how busy each is, and whether it can take calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use service::metrics::Registry;

use crate::config::{Config, Policy};
use crate::route::{Candidate, Rules, choose};

/// All nodes behind the gateway.
pub(crate) struct Fleet {
    nodes: Vec<Arc<Node>>,
    regions: RwLock<BTreeMap<String, f64>>,
    policy: Policy,
    turn: AtomicU64,
    /// Held while a node is chosen and its call counted, so that two calls do not see the same counts.
    choosing: Mutex<()>,
}

/// One node.
pub(crate) struct Node {
    /// Base address without a slash at the end.
    pub(crate) url: String,
    pub(crate) region: String,
    pub(crate) weight: f64,
    outstanding: AtomicUsize,
    usable: AtomicBool,
}

/// A call that a node works on. The node's count includes it until this is dropped.
pub(crate) struct Outstanding {
    node: Arc<Node>,
}

impl Fleet {
    pub(crate) fn new(config: &Config, metrics: &Registry) -> Self {
        let nodes = config.nodes.iter().map(|node| {
            Arc::new(Node {
                url: node.url.trim_end_matches('/').to_owned(),
                region: node.region.clone(),
                weight: node.weight,
                outstanding: AtomicUsize::new(0),
                // A node counts as usable until the first look at it, so that a gateway can serve at once.
                usable: AtomicBool::new(true),
            })
        });
        let nodes: Vec<Arc<Node>> = nodes.collect();
        for node in &nodes {
            observe(node, metrics);
        }
        Self {
            nodes,
            regions: RwLock::new(config.regions.clone()),
            policy: config.policy,
            turn: AtomicU64::new(0),
            choosing: Mutex::new(()),
        }
    }

    /// Chooses a usable node that is not among `tried` and counts the call there.
    pub(crate) fn pick(&self, tried: &[Arc<Node>]) -> Option<Outstanding> {
        let regions = self.regions.read();
        let _one_at_a_time = self.choosing.lock();
        let usable = |node: &&Arc<Node>| node.usable() && !tried.iter().any(|other| Arc::ptr_eq(other, node));
        let nodes: Vec<&Arc<Node>> = self.nodes.iter().filter(usable).collect();
        let candidates: Vec<Candidate<'_>> = nodes.iter().map(|node| node.candidate()).collect();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let rules = Rules { policy: self.policy, regions: &regions, turn };
        let chosen = choose(&candidates, rules, &mut rand::random::<f64>)?;
        nodes.get(chosen).map(|node| Outstanding::new(node))
    }

    pub(crate) fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    pub(crate) fn regions(&self) -> BTreeMap<String, f64> {
        self.regions.read().clone()
    }

    pub(crate) fn set_regions(&self, regions: BTreeMap<String, f64>) {
        *self.regions.write() = regions;
    }
}

impl Node {
    /// Calls it works on now.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::Acquire)
    }

    pub(crate) fn usable(&self) -> bool {
        self.usable.load(Ordering::Acquire)
    }

    /// Says whether it can take calls; gives what was said before.
    pub(crate) fn set_usable(&self, usable: bool) -> bool {
        self.usable.swap(usable, Ordering::AcqRel)
    }

    fn candidate(&self) -> Candidate<'_> {
        Candidate { region: &self.region, weight: self.weight, outstanding: self.outstanding() }
    }
}

impl Outstanding {
    fn new(node: &Arc<Node>) -> Self {
        node.outstanding.fetch_add(1, Ordering::AcqRel);
        Self { node: Arc::clone(node) }
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        self.node.outstanding.fetch_sub(1, Ordering::AcqRel);
    }
}

fn observe(node: &Arc<Node>, metrics: &Registry) {
    let labels = [("node", node.url.clone()), ("region", node.region.clone())];
    let seen = Arc::clone(node);
    metrics.observe("tokenwatt_gateway_outstanding_calls", "Calls a node works on.", &labels, move || {
        Some(seen.outstanding() as f64)
    });
    let seen = Arc::clone(node);
    metrics.observe("tokenwatt_gateway_node_usable", "1 while a node can take calls, else 0.", &labels, move || {
        Some(f64::from(u8::from(seen.usable())))
    });
}
