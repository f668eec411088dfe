//! Labels as Prometheus and Loki know them, under the names of OpenTelemetry's resource attributes.

use telemetry::names;

/// Short names in wide use. What looks like a resource attribute with underscores (`service_name`) needs no row.
const ALIASES: [(&str, &str); 19] = [
    ("service", names::SERVICE_NAME),
    ("app", names::SERVICE_NAME),
    ("namespace", names::K8S_NAMESPACE),
    ("pod", "k8s.pod.name"),
    ("pod_name", "k8s.pod.name"),
    ("container", "k8s.container.name"),
    ("container_name", "k8s.container.name"),
    ("node", "k8s.node.name"),
    ("node_name", "k8s.node.name"),
    ("cluster", names::K8S_CLUSTER),
    ("host", "host.name"),
    ("hostname", "host.name"),
    ("env", names::ENVIRONMENT),
    ("environment", names::ENVIRONMENT),
    ("deployment_environment", names::ENVIRONMENT),
    ("region", names::CLOUD_REGION),
    ("zone", names::CLOUD_ZONE),
    ("filename", "log.file.path"),
    ("stream", "log.iostream"),
];

/// Resource attributes of OpenTelemetry beyond those of our tables that labels spell with underscores.
const FURTHER: [&str; 8] = [
    "service.namespace",
    "host.name",
    "host.arch",
    "k8s.pod.name",
    "k8s.pod.uid",
    "k8s.node.name",
    "k8s.container.name",
    "container.id",
];

/// The resource attribute that a label stands for; a label that stands for none keeps its name.
pub(crate) fn canonical(label: &str) -> &str {
    if let Some((_, name)) = ALIASES.iter().find(|(alias, _)| *alias == label) {
        return name;
    }
    let known = names::RESOURCE.iter().map(|known| known.name).chain(FURTHER);
    known.into_iter().find(|name| underscored(name, label)).unwrap_or(label)
}

/// Whether `label` is `name` with underscores for dots.
fn underscored(name: &str, label: &str) -> bool {
    name.len() == label.len() && name.bytes().map(|byte| if byte == b'.' { b'_' } else { byte }).eq(label.bytes())
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn labels_are_known_by_their_names_in_use() {
        for (label, expected) in [
            ("service_name", "service.name"),
            ("app", "service.name"),
            ("namespace", "k8s.namespace.name"),
            ("k8s_namespace_name", "k8s.namespace.name"),
            ("cloud_availability_zone", "cloud.availability_zone"),
            ("host_id", "host.id"),
            ("host.id", "host.id"),
            ("team", "team"),
        ] {
            assert_eq!(canonical(label), expected);
        }
    }
}
