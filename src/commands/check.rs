//! `tokenwatt check`: the settings with their sources, and whether everything they name can be used.

mod store;

use std::net::{IpAddr, SocketAddr};

use clap::Args;
use service::Deps;
use service::principal::Principal;

use crate::cli::Common;
use crate::failure::Failure;
use crate::places;
use crate::print;
use crate::settings::{self, Config};

#[derive(Args)]
pub(crate) struct Flags {
    /// Print only what is wrong
    #[arg(long)]
    quiet: bool,
}

/// One thing that was looked at.
pub(crate) struct Finding {
    /// What was looked at.
    pub(crate) subject: String,
    /// How it is.
    pub(crate) verdict: Verdict,
}

/// How it is.
pub(crate) enum Verdict {
    /// Fine, with a word about it.
    Good(String),
    /// Worth knowing, not wrong.
    Note(String),
    /// Wrong.
    Bad(Failure),
}

impl Finding {
    pub(crate) fn good(subject: impl Into<String>, word: impl Into<String>) -> Self {
        Self { subject: subject.into(), verdict: Verdict::Good(word.into()) }
    }

    pub(crate) fn note(subject: impl Into<String>, word: impl Into<String>) -> Self {
        Self { subject: subject.into(), verdict: Verdict::Note(word.into()) }
    }

    pub(crate) fn bad(subject: impl Into<String>, failure: impl Into<Failure>) -> Self {
        Self { subject: subject.into(), verdict: Verdict::Bad(failure.into()) }
    }
}

pub(crate) async fn run(common: &Common, flags: &Flags) -> Result<(), Failure> {
    let loaded = settings::load_quietly(common)?;
    if !flags.quiet {
        print_settings(&loaded.values);
    }
    let deps = Deps::system();
    let mut findings = directories(&loaded.config);
    findings.extend(store::check(&loaded.config.data, &deps).await);
    findings.push(clock(&deps));
    findings.extend(tls(&loaded.config));
    findings.extend(tokens(&loaded.config, &deps));
    findings.extend(clashes(&loaded.config).into_iter().map(|error| Finding::bad("ports", error)));
    for (key, addr) in addresses(&loaded.config) {
        findings.push(port(key, addr).await);
    }
    print_findings(&findings, flags.quiet);
    let first = findings.into_iter().find_map(|finding| match finding.verdict {
        Verdict::Bad(failure) => Some(failure),
        _ => None,
    });
    first.map_or(Ok(()), Err)
}

fn print_settings(values: &[service::config::Sourced]) {
    let width =
        |of: fn(&service::config::Sourced) -> &str| values.iter().map(|value| of(value).len()).max().unwrap_or(0);
    let (keys, texts) = (width(|value| &value.key), width(|value| &value.value).min(40));
    for value in values {
        print::line(format!("{:keys$}  {:texts$}  {}", value.key, value.value, value.source));
    }
    print::line("");
}

fn print_findings(findings: &[Finding], quiet: bool) {
    for finding in findings {
        match &finding.verdict {
            Verdict::Good(_) | Verdict::Note(_) if quiet => {}
            Verdict::Good(word) => print::line(format!("ok    {}: {word}", finding.subject)),
            Verdict::Note(word) => print::line(format!("note  {}: {word}", finding.subject)),
            Verdict::Bad(failure) => {
                print::line(format!("BAD   {}: {}", finding.subject, service::error::chain(&failure.error)));
                if let Some(hint) = failure.error.hint() {
                    print::line(format!("      {hint}"));
                }
            }
        }
    }
}

fn directories(config: &Config) -> Vec<Finding> {
    let mut findings = vec![directory("state", &config.state)];
    if let Some(data) = places::local(&config.data) {
        findings.push(directory("data", data.as_ref()));
    }
    findings
}

fn directory(name: &str, path: &std::path::Path) -> Finding {
    match places::writable(name, path) {
        Ok(()) => Finding::good(name, format!("{} can be written", path.display())),
        Err(failure) => Finding::bad(name, failure),
    }
}

/// Whether the files of `[tls]` can be used, if there are any.
fn tls(config: &Config) -> Option<Finding> {
    let cert = config.tls.cert.as_ref()?;
    Some(match service::tls::Acceptor::load(&config.tls) {
        Ok(_) => Finding::good("tls", format!("{} and its key belong together", cert.display())),
        Err(error) => Finding::bad("tls", error),
    })
}

/// How long before its end a token is spoken of.
const SOON_US: i64 = 14 * 86_400 * 1_000_000;

/// Tokens that have expired, or soon will. The others work, so it is no fault of the settings.
fn tokens(config: &Config, deps: &Deps) -> Vec<Finding> {
    let now = deps.clock.now_us();
    let dated = config.principal.iter().filter_map(|principal| Some((principal, principal.expires?)));
    let ending = dated.filter(|(principal, _)| principal.expired(now.saturating_add(SOON_US)).is_some());
    let word = |(principal, expires): (&Principal, _)| {
        let verb = if principal.expired(now).is_some() { "expired" } else { "expires" };
        let word = format!("{verb} at {expires}; `tokenwatt token` makes a new one");
        Finding::note(format!("token of principal `{}`", principal.name), word)
    };
    ending.map(word).collect()
}

/// 2024-01-01 UTC, µs: a clock before it was never set.
const PLAUSIBLE_US: i64 = 1_704_067_200_000_000;

fn clock(deps: &Deps) -> Finding {
    if deps.clock.now_us() > PLAUSIBLE_US {
        return Finding::good("clock", "is set");
    }
    let error = service::Error::invalid("the machine's clock was never set")
        .with_hint("start NTP: event times decide prices and retention");
    Finding::bad("clock", error)
}

fn addresses(config: &Config) -> [(&'static str, SocketAddr); 5] {
    [
        ("collector.grpc_addr", config.collector.grpc_addr),
        ("collector.http_addr", config.collector.http_addr),
        ("ui.http_addr", config.ui.http_addr),
        ("query.flight_addr", config.query.flight_addr),
        ("query.postgres_addr", config.postgres_addr()),
    ]
}

/// Ports that two keys of one process share: whichever is bound second would be told that it is in use.
pub(crate) fn clashes(config: &Config) -> Vec<service::Error> {
    let node =
        [Some(("node.http_addr", config.node.http_addr)), config.node.grpc_addr.map(|addr| ("node.grpc_addr", addr))];
    let mut errors = Vec::new();
    for process in [addresses(config).to_vec(), node.into_iter().flatten().collect()] {
        for (place, (key, addr)) in process.iter().enumerate() {
            let clash = process.iter().take(place).find(|(_, other)| clash(*other, *addr));
            errors.extend(clash.map(|(other, _)| {
                service::Error::invalid(format!("`{other}` and `{key}` are both port {} on {}", addr.port(), addr.ip()))
                    .with_hint(format!("give `{key}` a port of its own"))
            }));
        }
    }
    errors
}

/// Whether both cannot be bound: the same port of the same address, or one of them of all addresses. 0 is any free port.
fn clash(a: SocketAddr, b: SocketAddr) -> bool {
    // All addresses of IPv6 are those of IPv4, too.
    let takes_in = |one: IpAddr, other: IpAddr| one.is_unspecified() && (one.is_ipv6() || other.is_ipv4());
    let (one, other) = (a.ip(), b.ip());
    a.port() == b.port() && a.port() != 0 && (one == other || takes_in(one, other) || takes_in(other, one))
}

/// A port in use is no fault of the settings: most likely Tokenwatt itself is running.
async fn port(key: &str, addr: SocketAddr) -> Finding {
    match service::listen::bind(addr).await {
        Ok(_) => Finding::good(key, format!("{addr} is free")),
        Err(error) if error.kind() == service::Kind::Conflict => Finding::note(key, format!("{addr} is in use")),
        Err(error) => Finding::bad(key, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port that two keys share is named, whichever they are; ports of other processes and free ones may be the same.
    #[test]
    fn a_port_that_two_keys_share_is_named() {
        let clashing = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            clashes(&config).iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        assert_eq!(clashing(|_| {}), "");
        let same = clashing(|config| config.collector.http_addr = config.collector.grpc_addr);
        assert!(same.contains("`collector.grpc_addr` and `collector.http_addr` are both port 4317"), "{same}");
        let wide = clashing(|config| config.query.postgres_addr = Some(SocketAddr::from(([0, 0, 0, 0], 8080))));
        assert!(wide.contains("`ui.http_addr` and `query.postgres_addr`"), "{wide}");
        let node = clashing(|config| config.node.grpc_addr = Some(config.node.http_addr));
        assert!(node.contains("`node.http_addr` and `node.grpc_addr`"), "{node}");
        assert_eq!(clashing(|config| config.node.http_addr = config.ui.http_addr), "", "they are two processes");
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        let any = |config: &mut Config| (config.ui.http_addr, config.query.flight_addr) = (free, free);
        let mut config = Config::default();
        any(&mut config);
        assert!(clashes(&config).is_empty());
    }
}
