//! Sends a call to a node, and to another one while that can still be done without the client seeing it.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use service::hop::{TRACEPARENT, end_to_end};
use service::metrics::{Counter, Registry};
use service::{Error, Result};
use telemetry::names::{HEADER_FLEET_SECRET, HEADER_TENANT};

use crate::accept::Call;
use crate::config::Config;
use crate::fault::Fault;
use crate::nodes::{Fleet, Node, Outstanding};
use crate::record::Record;

/// Start of the headers that only the fleet may send.
const OWN_PREFIX: &str = "x-tokenwatt-";

/// A node's answer, of which nothing has been relayed yet.
pub(crate) struct Answer {
    pub(crate) response: reqwest::Response,
    pub(crate) outstanding: Outstanding,
}

/// Sends calls to nodes.
pub(crate) struct Forwarder {
    client: reqwest::Client,
    secret: Option<HeaderValue>,
    retries: u32,
    answer_timeout: Duration,
    retried: Counter,
}

/// What became of one try.
enum Tried {
    Answered(Answer),
    /// Another node may do better; the answer, if there was one, is what the client gets when there is no other.
    Failed(Option<reqwest::Response>, Outstanding),
    TimedOut,
}

impl Forwarder {
    pub(crate) fn new(config: &Config, metrics: &Registry) -> Result<Self> {
        let client = reqwest::Client::builder()
            .connect_timeout(config.connect_timeout)
            .no_proxy()
            .tcp_nodelay(true)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| Error::internal("set up the client for nodes").with_source(error))?;
        let secret = config.fleet_secret.as_ref().map(|secret| HeaderValue::from_str(secret.expose())).transpose();
        let mut secret =
            secret.map_err(|_| Error::invalid("gateway.fleet_secret holds characters that no header can"))?;
        if let Some(secret) = &mut secret {
            secret.set_sensitive(true);
        }
        let retried = metrics.counter("tokenwatt_gateway_retries", "Further nodes tried.", &[]);
        Ok(Self { client, secret, retries: config.retries, answer_timeout: config.answer_timeout, retried })
    }

    pub(crate) fn client(&self) -> &reqwest::Client {
        &self.client
    }

    /// Sends the call and gives the first answer worth relaying.
    ///
    /// # Cancel safety
    /// Dropping it ends the call at the node and takes it off the node's count.
    pub(crate) async fn forward(&self, fleet: &Fleet, call: &Call, record: &mut Record) -> Result<Answer, Fault> {
        let headers = self.headers(call);
        let mut tried: Vec<Arc<Node>> = Vec::new();
        let mut last = None;
        while tried.len() <= self.retries as usize {
            let Some(outstanding) = fleet.pick(&tried) else { break };
            if !tried.is_empty() {
                self.retried.inc();
            }
            // The count of the node before is given back as soon as another one has the call.
            drop(last.take_if(|(answer, _): &mut (Option<reqwest::Response>, Outstanding)| answer.is_none()));
            record.dispatched(outstanding.node());
            tried.push(Arc::clone(outstanding.node()));
            match self.attempt(call, &headers, outstanding).await {
                Tried::Answered(answer) => return Ok(answer),
                Tried::TimedOut => return Err(Fault::Timeout),
                Tried::Failed(answer, outstanding) => last = Some((answer, outstanding)),
            }
        }
        match last {
            Some((Some(response), outstanding)) => Ok(Answer { response, outstanding }),
            Some((None, _)) => Err(Fault::Unreachable),
            None => Err(Fault::NoNode),
        }
    }

    async fn attempt(&self, call: &Call, headers: &HeaderMap, outstanding: Outstanding) -> Tried {
        let node = Arc::clone(outstanding.node());
        let url = format!("{}{}", node.url, call.path);
        let request = self.client.request(call.method.clone(), url).headers(headers.clone()).body(call.body.clone());
        match tokio::time::timeout(self.answer_timeout, request.send()).await {
            Ok(Ok(response)) if may_be_better_elsewhere(response.status()) => {
                Tried::Failed(Some(response), outstanding)
            }
            Ok(Ok(response)) => Tried::Answered(Answer { response, outstanding }),
            Ok(Err(error)) => {
                tracing::warn!(node = node.url, error = service::error::chain(&error), "node could not be reached");
                if error.is_connect() && node.set_usable(false) {
                    tracing::warn!(node = node.url, "node gets no calls until it answers /readyz");
                }
                Tried::Failed(None, outstanding)
            }
            Err(_) => Tried::TimedOut,
        }
    }

    /// The client's headers without those of its hop, its credentials and anything only the fleet may say; and our own.
    fn headers(&self, call: &Call) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(call.headers.len() + 3);
        for (name, value) in end_to_end(&call.headers, &[]) {
            let own = name.as_str().starts_with(OWN_PREFIX) || *name == header::AUTHORIZATION;
            if !own {
                headers.append(name, value.clone());
            }
        }
        if let Some(value) = call.place.header() {
            headers.insert(TRACEPARENT, value);
        }
        if let Some(tenant) = call.tenant.as_deref().and_then(|tenant| HeaderValue::from_str(tenant).ok()) {
            headers.insert(HeaderName::from_static(HEADER_TENANT), tenant);
        }
        if let Some(secret) = &self.secret {
            headers.insert(HeaderName::from_static(HEADER_FLEET_SECRET), secret.clone());
        }
        headers
    }
}

/// Headers of a node's answer that go to the client. The length may be passed on: the body is relayed byte for byte.
pub(crate) fn answer_headers(headers: &HeaderMap) -> HeaderMap {
    end_to_end(headers, &[header::CONTENT_LENGTH]).map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn may_be_better_elsewhere(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT)
}
