//! What the path of a container's log says of the container.

use std::path::Path;

use telemetry::names;

/// Length of a container's id in hex.
const ID_LENGTH: usize = 64;

/// Resource attributes that a path tells.
pub(super) fn attributes(path: &Path) -> Vec<(&'static str, String)> {
    let text = path.to_string_lossy();
    let mut parts = text.rsplit('/');
    let stem = parts.next().and_then(|name| name.strip_suffix(".log")).unwrap_or_default();
    let (parent, above) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let mut found = vec![("log.file.path", text.to_string())];
    if parent == "containers" {
        found.extend(of_link(stem));
    } else if let Some((namespace, rest)) = above.split_once('_')
        && let Some((pod, uid)) = rest.split_once('_')
        && !stem.is_empty()
        && stem.bytes().all(|byte| byte.is_ascii_digit())
    {
        found.extend(of_container(namespace, pod, parent));
        found.push(("k8s.pod.uid", uid.to_owned()));
        found.push(("k8s.container.restart_count", stem.to_owned()));
    } else if above == "containers" && is_id(parent) {
        found.push(("container.id", parent.to_owned()));
    }
    found
}

/// `/var/log/containers/<pod>_<namespace>_<container>-<id>.log`.
fn of_link(stem: &str) -> Vec<(&'static str, String)> {
    let split = || {
        let (pod, rest) = stem.split_once('_')?;
        let (namespace, rest) = rest.split_once('_')?;
        let (container, id) = rest.rsplit_once('-')?;
        is_id(id).then_some((namespace, pod, container, id))
    };
    let Some((namespace, pod, container, id)) = split() else { return Vec::new() };
    let mut found = of_container(namespace, pod, container);
    found.push(("container.id", id.to_owned()));
    found
}

fn of_container(namespace: &str, pod: &str, container: &str) -> Vec<(&'static str, String)> {
    vec![
        // OpenTelemetry's fallback for a service without a name of its own.
        (names::SERVICE_NAME, container.to_owned()),
        (names::K8S_NAMESPACE, namespace.to_owned()),
        ("k8s.pod.name", pod.to_owned()),
        ("k8s.container.name", container.to_owned()),
    ]
}

fn is_id(text: &str) -> bool {
    text.len() == ID_LENGTH && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
