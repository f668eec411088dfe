//! A target: where it is, when it is asked, and what is known of it beforehand.

use std::time::Duration;

use reqwest::Url;
use service::error::{Error, Result};
use telemetry::names;
use xxhash_rust::xxh3::xxh3_64;

use super::Scrape;

/// A target.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) url: Url,
    /// The URL as logs show it: without a user and a password.
    pub(super) shown: String,
    /// How long after the start it is first asked, so that targets are spread over the interval.
    pub(super) jitter: Duration,
    /// What its address says: weaker than what it says of itself.
    pub(super) derived: Vec<(String, String)>,
    /// What the settings say: stronger.
    pub(super) labels: Vec<(String, String)>,
    /// Labels of its series that become resource attributes.
    pub(super) promote: Vec<(String, String)>,
}

impl Target {
    pub(super) fn new(group: &Scrape, text: &str) -> Result<Self> {
        let url =
            url(text, &group.path).map_err(|reason| Error::invalid(format!("`{text}` is no target: {reason}")))?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let port = url.port_or_known_default().unwrap_or_default();
        let instance = format!("{host}:{port}");
        let derived = [
            (names::SERVICE_NAME, group.job.clone()),
            (names::SERVICE_INSTANCE_ID, instance.clone()),
            ("server.address", host),
            ("server.port", port.to_string()),
            ("url.scheme", url.scheme().to_owned()),
        ];
        let interval_ms = u64::try_from(group.interval.as_millis()).unwrap_or(u64::MAX).max(1);
        let pairs = |map: &std::collections::BTreeMap<String, String>| {
            map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        Ok(Self {
            jitter: Duration::from_millis(xxh3_64(url.as_str().as_bytes()) % interval_ms),
            shown: format!("{}://{instance}{}", url.scheme(), url.path()),
            url,
            derived: derived.map(|(key, value)| (key.to_owned(), value)).into(),
            labels: pairs(&group.labels),
            promote: pairs(&group.promote),
        })
    }
}

/// The URL of a target given as `host:port` or as a URL.
pub(super) fn url(target: &str, path: &str) -> std::result::Result<Url, String> {
    let whole = if target.contains("://") { target.to_owned() } else { format!("http://{target}") };
    let mut url = Url::parse(&whole).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("only http and https can be scraped".to_owned());
    }
    if url.path() == "/" && url.query().is_none() {
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        url.set_path(path);
        url.set_query(query);
    }
    Ok(url)
}
