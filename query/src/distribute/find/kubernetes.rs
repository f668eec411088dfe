//! The ready endpoints of a Kubernetes service, as its EndpointSlices list them.

use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
    time::Duration,
};

use serde::Deserialize;
use service::{Error, Result, secret::Secret};

/// Where a pod finds what it needs to speak with the API server.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Where the API server is found from every pod.
const SERVER: &str = "https://kubernetes.default.svc";
/// Time for one answer.
const ANSWER: Duration = Duration::from_secs(5);

/// The API server, as a pod's service account may ask it.
pub(super) struct Endpoints {
    client: reqwest::Client,
    server: String,
    token: Secret,
}

#[derive(Debug, Deserialize)]
struct Slices {
    items: Vec<Slice>,
}

#[derive(Debug, Deserialize)]
struct Slice {
    #[serde(default)]
    endpoints: Vec<Endpoint>,
}

#[derive(Debug, Deserialize)]
struct Endpoint {
    addresses: Vec<IpAddr>,
    #[serde(default)]
    conditions: Conditions,
}

#[derive(Debug, Default, Deserialize)]
struct Conditions {
    /// Unknown is to be read as true.
    ready: Option<bool>,
}

impl Endpoints {
    /// With the token and the authority of the pod's service account. The token is read each time: it is renewed.
    ///
    /// # Errors
    /// `NotFound` outside a pod.
    pub(super) fn of_pod() -> Result<Endpoints> {
        let read = |name: &str| {
            let path = Path::new(ACCOUNT).join(name);
            std::fs::read(&path).map_err(|error| {
                Error::not_found(format!("read {}", path.display())).with_source(error).with_hint(
                    "`query.workers.kubernetes` works in a pod with a service account; elsewhere give `list` or `dns`",
                )
            })
        };
        let token = String::from_utf8_lossy(&read("token")?).trim().to_owned();
        Endpoints::at(SERVER, Secret::new(token), Some(&read("ca.crt")?))
    }

    fn at(server: &str, token: Secret, authority: Option<&[u8]>) -> Result<Endpoints> {
        let unusable = |error| Error::invalid("the cluster's authority cannot be used").with_source(error);
        let mut client = reqwest::Client::builder().timeout(ANSWER);
        if let Some(authority) = authority {
            client = client.add_root_certificate(reqwest::Certificate::from_pem(authority).map_err(unusable)?);
        }
        Ok(Endpoints { client: client.build().map_err(unusable)?, server: server.to_owned(), token })
    }

    /// Addresses of the service's endpoints that are ready.
    ///
    /// # Errors
    /// `Denied` if the service account may not list EndpointSlices; `Unavailable`.
    pub(super) async fn ready(&self, namespace: &str, service: &str, port: u16) -> Result<Vec<SocketAddr>> {
        let url = format!(
            "{}/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D{service}",
            self.server
        );
        let failed =
            |error| Error::unavailable(format!("list the endpoints of {namespace}/{service}")).with_source(error);
        let response = self.client.get(url).bearer_auth(self.token.expose()).send().await.map_err(failed)?;
        if matches!(response.status().as_u16(), 401 | 403) {
            return Err(Error::denied(format!("list the endpoints of {namespace}/{service}"))
                .with_hint("give the service account a Role with `list` on `endpointslices` of `discovery.k8s.io`"));
        }
        let slices: Slices = response.error_for_status().map_err(failed)?.json().await.map_err(failed)?;
        let endpoints = slices.items.into_iter().flat_map(|slice| slice.endpoints);
        let ready = endpoints.filter(|endpoint| endpoint.conditions.ready.unwrap_or(true));
        Ok(ready.filter_map(|endpoint| Some(SocketAddr::new(*endpoint.addresses.first()?, port))).collect())
    }
}

#[cfg(test)]
mod tests {
    use axum::{Router, extract::Query, http::HeaderMap, http::StatusCode, routing::get};
    use service::secret::Secret;

    use super::Endpoints;

    const SLICES: &str = r#"{"kind": "EndpointSliceList", "items": [
        {"addressType": "IPv4", "endpoints": [
            {"addresses": ["10.1.0.4"], "conditions": {"ready": true, "serving": true}},
            {"addresses": ["10.1.0.5"], "conditions": {"ready": false}},
            {"addresses": ["10.1.0.6"]}], "ports": [{"port": 1}]},
        {"addressType": "IPv6", "endpoints": [{"addresses": ["fd00::1"], "conditions": {}}]},
        {"addressType": "IPv4"}]}"#;

    /// An API server that knows one token, one namespace and one service.
    async fn server() -> String {
        let list = |headers: HeaderMap, Query(query): Query<std::collections::BTreeMap<String, String>>| async move {
            let is_known = headers.get("authorization").is_some_and(|shown| shown == "Bearer good");
            let is_asked =
                query.get("labelSelector").is_some_and(|label| label == "kubernetes.io/service-name=workers");
            match (is_known, is_asked) {
                (true, true) => (StatusCode::OK, SLICES),
                (true, false) => (StatusCode::OK, r#"{"items": []}"#),
                _ => (StatusCode::FORBIDDEN, "{}"),
            }
        };
        let router = Router::new().route("/apis/discovery.k8s.io/v1/namespaces/tokenwatt/endpointslices", get(list));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("an address");
        tokio::spawn(async move { axum::serve(listener, router).await });
        format!("http://{addr}")
    }

    #[tokio::test]
    async fn ready_endpoints_of_all_slices_are_workers() {
        let server = server().await;
        let endpoints = Endpoints::at(&server, Secret::new("good"), None).expect("a client");
        let found = endpoints.ready("tokenwatt", "workers", 8816).await.expect("endpoints");
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["10.1.0.4:8816", "10.1.0.6:8816", "[fd00::1]:8816"]);
        assert!(endpoints.ready("tokenwatt", "others", 8816).await.expect("none").is_empty());
        let denied = Endpoints::at(&server, Secret::new("bad"), None).expect("a client");
        let error = denied.ready("tokenwatt", "workers", 8816).await.expect_err("denied");
        assert_eq!((error.kind(), error.hint().is_some()), (service::Kind::Denied, true));
    }
}
