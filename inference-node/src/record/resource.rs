//! Who sends: the resource of all telemetry of a node.

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use telemetry::names;

use crate::config::Identity;
use crate::engine::EngineDescription;

/// What every span and metric of a node has in common.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// `service.instance.id`.
    pub(crate) instance: String,
    /// Resource attributes, in a fixed order.
    pub(crate) attributes: Vec<KeyValue>,
    /// What the engine is.
    pub(crate) engine: EngineDescription,
    /// Share of calls whose tokens are sent.
    pub(crate) token_sampling: f64,
}

impl Origin {
    /// The resource as the SDK wants it.
    pub(crate) fn resource(&self) -> Resource {
        Resource::builder_empty().with_attributes(self.attributes.iter().cloned()).build()
    }
}

/// The origin of a node; `instance` is its id if the settings give none.
pub(crate) fn origin(identity: &Identity, engine: &EngineDescription, instance: String, token_sampling: f64) -> Origin {
    let instance = identity.instance.clone().unwrap_or(instance);
    let mut attributes = vec![
        KeyValue::new(names::SERVICE_NAME, identity.service.clone()),
        KeyValue::new(names::SERVICE_VERSION, env!("CARGO_PKG_VERSION")),
        KeyValue::new(names::SERVICE_INSTANCE_ID, instance.clone()),
    ];
    for (name, value) in [
        (names::HOST_ID, &identity.host_id),
        (names::HOST_TYPE, &identity.host_type),
        (names::CLOUD_PROVIDER, &identity.provider),
        (names::CLOUD_REGION, &identity.region),
        (names::CLOUD_ZONE, &identity.zone),
        (names::CLOUD_ACCOUNT, &identity.account),
        (names::K8S_CLUSTER, &identity.cluster),
        (names::K8S_NAMESPACE, &identity.namespace),
        (names::ENVIRONMENT, &identity.environment),
        (names::POOL, &identity.pool),
        (names::CAPACITY_TYPE, &identity.capacity_type),
        (names::SIMULATED, &engine.simulated),
    ] {
        if let Some(value) = value {
            attributes.push(KeyValue::new(name, value.clone()));
        }
    }
    if let Some(chips) = engine.chips {
        attributes.push(KeyValue::new(names::CHIPS, i64::from(chips)));
    }
    Origin { instance, attributes, engine: engine.clone(), token_sampling }
}
