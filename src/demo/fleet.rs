//! Which regions, nodes and gateways the demo has. Plain data until [`build`].

use std::net::SocketAddr;

use clap::ValueEnum;
use gateway::config::{Identity as GatewayIdentity, Key, Node};
use inference_node::config::Identity;
use service::secret::Secret;
use service::{Deps, Result};
use telemetry::names;

/// What gateways and nodes of the demo know of each other; both run in this process.
const FLEET_SECRET: &str = "demo-fleet";
/// The model all nodes serve, one with published step times on both kinds of hardware.
pub(crate) const MODEL: &str = "Llama-3-8B";
/// Environment of what everybody uses.
pub(crate) const PRODUCTION: &str = "production";
/// How much longer prefill takes on a faulty node.
const PREFILL_SLOWDOWN: f64 = 20.0;
/// Customers, with the API keys their applications use. One sends half of the calls, as in life.
pub(crate) const TENANTS: [(&str, &str, f64); 4] = [
    ("acme", "demo-key-acme", 0.5),
    ("globex", "demo-key-globex", 0.25),
    ("initech", "demo-key-initech", 0.15),
    ("umbrella", "demo-key-umbrella", 0.1),
];

/// Attributes by which the demo's costs are split beside its tenants: what every node on EKS says of itself.
pub(crate) const ALLOCATION_KEYS: [&str; 2] = [names::K8S_NAMESPACE, names::ENVIRONMENT];

/// What is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Faults {
    /// One node of eu-west-1 takes 20 times as long for its prefill
    Node,
    /// All nodes of eu-west-1 do
    Region,
}

/// A region of the demo.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Region {
    /// Cloud region.
    pub(crate) name: &'static str,
    /// Short form, in host names.
    short: &'static str,
    /// Share of the whole load.
    pub(crate) share: f64,
    /// Hours that its clocks are ahead of UTC in winter; shifts the shape of its day.
    pub(crate) utc_offset_h: f64,
    hosts: &'static [Host],
}

/// A kind of host.
#[derive(Debug, Clone, Copy)]
enum Host {
    Inf2,
    Trn1,
    /// Hardware that no price list and no power figure knows: shows what unknown looks like.
    Unlisted,
}

impl Host {
    /// Namespace and environment of its server: what is new is tried by few, before it serves everybody.
    fn owner(self) -> (&'static str, &'static str) {
        match self {
            Host::Inf2 => ("assistant", PRODUCTION),
            Host::Trn1 => ("search", PRODUCTION),
            Host::Unlisted => ("lab", "staging"),
        }
    }
}

/// The fleet.
pub(crate) const REGIONS: [Region; 3] = [
    Region {
        name: "us-east-1",
        short: "use1",
        share: 0.4,
        utc_offset_h: -5.0,
        hosts: &[Host::Inf2, Host::Inf2, Host::Trn1],
    },
    Region {
        name: "us-west-2",
        short: "usw2",
        share: 0.35,
        utc_offset_h: -8.0,
        hosts: &[Host::Inf2, Host::Trn1, Host::Unlisted],
    },
    Region { name: "eu-west-1", short: "euw1", share: 0.25, utc_offset_h: 0.0, hosts: &[Host::Inf2, Host::Inf2] },
];

/// Objectives for the demo's fleet, where its settings have none: the first token of each region within a second, and the whole
/// fleet's availability and pace.
pub(crate) fn objectives() -> Vec<query::Slo> {
    let slo = |name: &str, indicator: &str, threshold, objective| query::Slo {
        name: name.to_owned(),
        indicator: indicator.to_owned(),
        threshold,
        objective,
        window_days: 30,
        measured_at: "server".to_owned(),
        region: None,
        model: None,
        tenant: None,
    };
    let first_tokens = REGIONS.map(|region| query::Slo {
        region: Some(region.name.to_owned()),
        ..slo(&format!("ttft-{}", region.name), "ttft_s", Some(1.0), 0.99)
    });
    let whole = [slo("availability", "availability", None, 0.999), slo("pace", "tpot_s", Some(0.1), 0.95)];
    first_tokens.into_iter().chain(whole).collect()
}

/// How the fleet is set up.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// What is broken.
    pub(crate) faults: Option<Faults>,
    /// First port of the gateways and of the nodes; `None` takes free ones.
    pub(crate) ports: Option<Ports>,
    /// Collector that all telemetry goes to.
    pub(crate) otlp_endpoint: String,
}

/// First ports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) gateways: u16,
    pub(crate) nodes: u16,
}

/// The fleet with its ports bound.
pub(crate) struct Fleet {
    gateways: Vec<(Region, gateway::Built, Deps)>,
    nodes: Vec<(String, inference_node::Node, Deps)>,
    /// Nodes that are slow on purpose.
    pub(crate) slow: Vec<String>,
}

/// Binds all ports; nothing is served yet.
pub(crate) async fn build(plan: &Plan, deps: &Deps) -> Result<Fleet> {
    let mut fleet = Fleet { gateways: Vec::new(), nodes: Vec::new(), slow: Vec::new() };
    for (index, region) in (0..).zip(REGIONS) {
        let mut behind = Vec::new();
        for (place, host) in (0..).zip(region.hosts) {
            let port = plan.ports.map_or(0, |ports| ports.nodes.saturating_add(to_port(fleet.nodes.len())));
            let config = node(plan, &region, place, *host, port);
            let name = config.identity.host_id.clone().unwrap_or_default();
            if config.engine.sim.prefill_slowdown > 1.0 {
                fleet.slow.push(name.clone());
            }
            let parts = deps.sibling();
            let built = inference_node::build(config, parts.clone()).await?;
            behind.push(Node {
                url: format!("http://{}", built.http_addr()),
                region: region.name.to_owned(),
                weight: 1.0,
            });
            fleet.nodes.push((name, built, parts));
        }
        let port = plan.ports.map_or(0, |ports| ports.gateways.saturating_add(index));
        let parts = deps.sibling();
        let built = gateway::build(front(plan, &region, behind, port), parts.clone()).await?;
        fleet.gateways.push((region, built, parts));
    }
    Ok(fleet)
}

impl Fleet {
    /// Names and addresses, as they are printed.
    pub(crate) fn addresses(&self) -> Vec<(String, String)> {
        let gateways = self.gateways().into_iter().map(|(region, url)| (format!("gateway/{}", region.name), url));
        let nodes =
            self.nodes.iter().map(|(name, node, _)| (format!("node/{name}"), format!("http://{}", node.http_addr())));
        gateways.chain(nodes).collect()
    }

    /// Every region with the address of its gateway.
    pub(crate) fn gateways(&self) -> Vec<(Region, String)> {
        self.gateways.iter().map(|(region, built, _)| (*region, format!("http://{}", built.http_addr()))).collect()
    }

    /// Serves all of it in the background.
    pub(crate) fn spawn(self) {
        for (name, node, deps) in self.nodes {
            deps.tasks.spawn(format!("node/{name}"), node.run());
        }
        for (region, gateway, deps) in self.gateways {
            deps.tasks.spawn(format!("gateway/{}", region.name), gateway.run());
        }
    }
}

fn node(plan: &Plan, region: &Region, place: u16, host: Host, port: u16) -> inference_node::Config {
    let mut config = inference_node::Config {
        http_addr: SocketAddr::from(([127, 0, 0, 1], port)),
        otlp_endpoint: plan.otlp_endpoint.clone(),
        fleet_secret: Some(Secret::new(FLEET_SECRET)),
        // Free ones: the nodes' ports stand side by side.
        grpc_addr: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        ..inference_node::Config::default()
    };
    let sim = &mut config.engine.sim;
    MODEL.clone_into(&mut sim.model);
    sim.seed = u64::from(port) + u64::from(place);
    let (host_type, pool, capacity) = match host {
        Host::Inf2 => ("inf2.48xlarge", "inf2", "on_demand"),
        Host::Trn1 => {
            "trn1.32xlarge".clone_into(&mut sim.like);
            ("trn1.32xlarge", "trn1", "on_demand")
        }
        Host::Unlisted => {
            sim.accelerator = Some("CustomNPU".to_owned());
            sim.chips = Some(8);
            ("custom-npu.8x", "custom", "unknown")
        }
    };
    let (namespace, environment) = host.owner();
    let faulty = match plan.faults {
        None => false,
        Some(Faults::Node) => region.name == "eu-west-1" && place == 0,
        Some(Faults::Region) => region.name == "eu-west-1",
    };
    if faulty {
        sim.prefill_slowdown = PREFILL_SLOWDOWN;
    }
    let letter = char::from(b'a'.saturating_add(u8::try_from(place).unwrap_or(u8::MAX)));
    let name = format!("{}-{pool}-{letter}", region.short);
    config.identity = Identity {
        service: "llm-server".to_owned(),
        instance: Some(name.clone()),
        host_id: Some(name),
        host_type: Some(host_type.to_owned()),
        provider: matches!(host, Host::Inf2 | Host::Trn1).then(|| "aws".to_owned()),
        region: Some(region.name.to_owned()),
        zone: Some(format!("{}{letter}", region.name)),
        cluster: Some(format!("demo-{}", region.short)),
        namespace: Some(namespace.to_owned()),
        environment: Some(environment.to_owned()),
        pool: Some(pool.to_owned()),
        capacity_type: Some(capacity.to_owned()),
        ..Identity::default()
    };
    config
}

fn front(plan: &Plan, region: &Region, nodes: Vec<Node>, port: u16) -> gateway::Config {
    let keys = TENANTS.iter().map(|(tenant, key, _)| Key { key: Secret::new(*key), tenant: (*tenant).to_owned() });
    gateway::Config {
        http_addr: SocketAddr::from(([127, 0, 0, 1], port)),
        nodes,
        keys: keys.collect(),
        fleet_secret: Some(Secret::new(FLEET_SECRET)),
        otlp_endpoint: plan.otlp_endpoint.clone(),
        identity: GatewayIdentity {
            instance: Some(format!("gateway-{}", region.short)),
            region: Some(region.name.to_owned()),
            environment: Some(PRODUCTION.to_owned()),
            cluster: Some(format!("demo-{}", region.short)),
            ..GatewayIdentity::default()
        },
        ..gateway::Config::default()
    }
}

fn to_port(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn configs(faults: Option<Faults>) -> Vec<inference_node::Config> {
        let plan = Plan { faults, ports: None, otlp_endpoint: "http://127.0.0.1:4317".to_owned() };
        let hosts =
            REGIONS.iter().flat_map(|region| (0..).zip(region.hosts).map(move |(place, host)| (region, place, host)));
        hosts.map(|(region, place, host)| node(&plan, region, place, *host, 0)).collect()
    }

    fn slow(faults: Option<Faults>) -> Vec<String> {
        let slow = configs(faults).into_iter().filter(|config| config.engine.sim.prefill_slowdown > 1.0);
        slow.filter_map(|config| config.identity.host_id).collect()
    }

    /// Faults stay in eu-west-1: nowhere, on one node, or on all of them.
    #[test]
    fn faults_hit_only_what_they_name() {
        assert!(slow(None).is_empty());
        assert_eq!(slow(Some(Faults::Node)), ["euw1-inf2-a"]);
        assert_eq!(slow(Some(Faults::Region)), ["euw1-inf2-a", "euw1-inf2-b"]);
    }

    /// Every node is another host, every setting is valid, and exactly one host type has no price anywhere.
    #[test]
    fn nodes_are_distinct_and_one_has_no_price() {
        let configs = configs(None);
        let ids: BTreeSet<_> = configs.iter().filter_map(|config| config.identity.host_id.clone()).collect();
        assert_eq!(ids.len(), configs.len());
        let mut faults = Vec::new();
        configs.iter().for_each(|config| config.validate(&mut faults));
        assert!(faults.is_empty(), "{faults:?}");

        let priced: BTreeSet<String> = telemetry::price::bundled().iter().map(|row| row.host_type.clone()).collect();
        let types: BTreeSet<_> = configs.iter().filter_map(|config| config.identity.host_type.clone()).collect();
        let unknown: Vec<_> = types.difference(&priced).collect();
        assert_eq!(unknown, ["custom-npu.8x"]);
    }

    /// A demo starts with objectives and allocation keys that its settings could hold, and its nodes say more than one value of each.
    #[test]
    fn objectives_and_keys_are_valid() {
        let mut faults = Vec::new();
        query::validate_slos(&objectives(), &mut faults);
        let keys = ALLOCATION_KEYS.map(str::to_owned).to_vec();
        telemetry::allocation::Settings { allocation_keys: keys, ..Default::default() }.validate(&mut faults);
        assert!(faults.is_empty(), "{faults:?}");

        let said = |of: fn(&Identity) -> &Option<String>| {
            configs(None).iter().filter_map(|config| of(&config.identity).clone()).collect::<BTreeSet<_>>().len()
        };
        assert_eq!((said(|node| &node.namespace), said(|node| &node.environment)), (3, 2));
    }

    /// The shares are the whole load.
    #[test]
    fn shares_add_up() {
        assert!((REGIONS.iter().map(|region| region.share).sum::<f64>() - 1.0).abs() < 1e-9);
        assert!((TENANTS.iter().map(|(_, _, share)| share).sum::<f64>() - 1.0).abs() < 1e-9);
    }
}
