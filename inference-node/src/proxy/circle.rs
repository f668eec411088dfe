//! A proxy whose engine is itself, at once or by way of others: each call would come back for as long as there are connections.
//! Where the settings show it they are refused; else a call bears the proxy's sign, and is refused when it comes back with it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::http::{HeaderMap, HeaderValue, header};
use rand::Rng;
use reqwest::Url;

/// Adds one line where `url` leads to one of the node's `own` addresses.
pub(super) fn refuse_own(setting: &str, url: &str, own: [SocketAddr; 2], faults: &mut Vec<String>) {
    let Ok(parsed) = Url::parse(url) else { return };
    let (Some(host), Some(port)) = (parsed.host_str(), parsed.port_or_known_default()) else { return };
    if let Some(own) = own.into_iter().find(|own| port != 0 && own.port() == port && leads_to(host, own.ip())) {
        faults.push(format!(
            "{setting} `{url}` is where the node itself listens ({own}): every call would come back to it; give the address of the \
             engine, or let the node listen elsewhere (node.http_addr, node.grpc_addr)"
        ));
    }
}

/// Whether who connects to `host` comes to a listener at `own`. Names but those of the loopback are unknown here.
fn leads_to(host: &str, own: IpAddr) -> bool {
    let name = host.trim_end_matches('.');
    let is_local = name == "localhost" || name.ends_with(".localhost");
    let ip = match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(ip) => ip.to_canonical(),
        Err(_) if is_local => IpAddr::V4(Ipv4Addr::LOCALHOST),
        Err(_) => return false,
    };
    let own = own.to_canonical();
    // Who connects to all addresses comes to the loopback, and who listens at all of them listens there too.
    let to_loopback = ip.is_loopback() || ip.is_unspecified();
    if own.is_unspecified() {
        return to_loopback && (own.is_ipv6() || ip.is_ipv4());
    }
    ip == own || (is_local || ip.is_unspecified()) && own.is_loopback()
}

/// What a proxy puts on calls to know them again, in the header that HTTP has for that (RFC 9110, section 7.6.3).
pub(super) struct Sign(String);

impl Sign {
    /// A new one, which no other proxy has.
    pub(super) fn new() -> Self {
        Self(format!("1.1 tokenwatt-{:016x}", rand::rng().random::<u64>()))
    }

    /// Whether the call has been here before.
    pub(super) fn is_on(&self, headers: &HeaderMap) -> bool {
        let signs = headers.get_all(header::VIA).into_iter().filter_map(|value| value.to_str().ok());
        signs.flat_map(|signs| signs.split(',')).any(|sign| sign.trim() == self.0)
    }

    /// Signs a call that goes on.
    pub(super) fn put(&self, headers: &mut HeaderMap) {
        if let Ok(value) = HeaderValue::from_str(&self.0) {
            headers.append(header::VIA, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every spelling of the own address is known; another port, another host and a name are not it.
    #[test]
    fn own_addresses() {
        let faults = |url: &str, listen: &str| {
            let http: SocketAddr = listen.parse().unwrap();
            let mut faults = Vec::new();
            refuse_own("node.engine.proxy.upstream", url, [http, SocketAddr::new(http.ip(), 8101)], &mut faults);
            faults.len()
        };
        for (url, listen) in [
            ("http://127.0.0.1:8100", "127.0.0.1:8100"),
            ("http://localhost:8100/", "127.0.0.1:8100"),
            ("http://LOCALHOST.:8100/v1", "127.0.0.1:8100"),
            ("http://127.1:8100", "127.0.0.1:8100"),
            ("http://0x7f000001:8101", "127.0.0.1:8100"),
            ("http://0.0.0.0:8100", "127.0.0.1:8100"),
            ("http://[::ffff:127.0.0.1]:8100", "127.0.0.1:8100"),
            ("http://127.0.0.9:8100", "0.0.0.0:8100"),
            ("http://localhost:8100", "[::1]:8100"),
            ("http://[::1]:8100", "[::]:8100"),
            ("http://127.0.0.1:8101", "[::]:8100"),
            ("http://10.0.0.7:8100", "10.0.0.7:8100"),
            ("http://127.0.0.1", "127.0.0.1:80"),
            ("https://127.0.0.1", "127.0.0.1:443"),
        ] {
            assert_eq!(faults(url, listen), 1, "{url} {listen}");
        }
        for (url, listen) in [
            ("http://127.0.0.1:8000", "127.0.0.1:8100"),
            ("http://127.0.0.2:8100", "127.0.0.1:8100"),
            ("http://[::1]:8100", "127.0.0.1:8100"),
            ("http://[::1]:8100", "0.0.0.0:8100"),
            ("http://10.0.0.7:8100", "127.0.0.1:8100"),
            ("http://10.0.0.7:8100", "0.0.0.0:8100"),
            ("http://engine:8100", "0.0.0.0:8100"),
            ("http://localhost:8100", "10.0.0.7:8100"),
            ("http://127.0.0.1:0", "127.0.0.1:0"),
        ] {
            assert_eq!(faults(url, listen), 0, "{url} {listen}");
        }
    }

    /// A proxy knows its own sign among those of others.
    #[test]
    fn signs() {
        let (own, other) = (Sign::new(), Sign::new());
        let mut headers = HeaderMap::new();
        other.put(&mut headers);
        headers.append(header::VIA, HeaderValue::from_static("1.1 a, 2 b"));
        assert!(!own.is_on(&headers) && other.is_on(&headers));
        own.put(&mut headers);
        assert!(own.is_on(&headers) && other.is_on(&headers));
        let joined = HeaderMap::from_iter([(header::VIA, HeaderValue::try_from(format!("1.1 a,{}", own.0)).unwrap())]);
        assert!(own.is_on(&joined));
    }
}
