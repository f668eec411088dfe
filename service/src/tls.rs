//! TLS for every port: one certificate and, if asked for, client certificates that name principals.
//!
//! ```text
//! files ─► server settings (read again when they change) ─► handshake, at most 10 s ─► stream + the peer's names
//! ```
//!
//! A client certificate is never demanded here: health checks have none. Who shows neither token nor certificate is
//! refused by [`crate::principal`].

mod files;
mod stream;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::deps::Deps;
use crate::error::{Error, Kind, Result, chain};
use crate::health::Component;
use crate::metrics::Counter;
use crate::shutdown::Stage;

pub use files::Config;
pub use stream::Stream;

/// Time for a handshake; a peer that needs more is not going to finish.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the files are looked at. Certificates are renewed hours before they expire.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Takes connections: with TLS where it is set up, else as they come. Clones share one certificate.
#[derive(Clone, Default)]
pub struct Acceptor {
    secure: Option<Arc<Secure>>,
}

struct Secure {
    files: Config,
    current: RwLock<Loaded>,
}

/// What the files held when they were last read and could be used.
#[derive(Clone)]
struct Loaded {
    server: Arc<ServerConfig>,
    fingerprint: files::Fingerprint,
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    addr: Option<SocketAddr>,
    names: Arc<[String]>,
}

impl Peer {
    /// A peer without an address, whose certificate carries these names.
    #[must_use]
    pub fn named<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        Self { addr: None, names: names.map(str::to_owned).collect() }
    }

    /// DNS names and URIs of the client certificate that it proved to own; none without one.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Its address, where it came over a socket.
    #[must_use]
    pub fn addr(&self) -> Option<SocketAddr> {
        self.addr
    }
}

impl Acceptor {
    /// Reads the files, if the settings name any.
    ///
    /// # Errors
    /// `Invalid` for a file that cannot be read or does not hold what it should, or a key of another certificate.
    pub fn load(config: &Config) -> Result<Self> {
        if !config.is_set() {
            return Ok(Self::default());
        }
        let (server, fingerprint) = config.read()?;
        let current = RwLock::new(Loaded { server: Arc::new(server), fingerprint });
        Ok(Self { secure: Some(Arc::new(Secure { files: config.clone(), current })) })
    }

    /// Whether connections are under TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.secure.is_some()
    }

    /// `https` or `http`.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        if self.secure.is_some() { "https" } else { "http" }
    }

    /// Does the handshake, if there is one.
    ///
    /// # Errors
    /// `Invalid` if the peer speaks no TLS or shows a certificate of a stranger, `Unavailable` if it takes too long.
    pub async fn accept(&self, stream: TcpStream) -> Result<(Stream, Peer)> {
        let addr = stream.peer_addr().ok();
        let Some(secure) = &self.secure else {
            return Ok((Stream::Plain(stream), Peer { addr, names: Arc::default() }));
        };
        let acceptor = TlsAcceptor::from(Arc::clone(&secure.current.read().server));
        let shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await;
        let late =
            |_| Error::new(Kind::Unavailable { retry_after: HANDSHAKE_TIMEOUT }, "the TLS handshake took too long");
        let stream = shaken.map_err(late)?.map_err(|error| Error::invalid("TLS handshake").with_source(error))?;
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let names = shown.map(names).unwrap_or_default();
        Ok((Stream::Secure(Box::new(stream)), Peer { addr, names }))
    }

    /// Starts to look at the files from time to time and to take what is new; new connections use it. Files that cannot be
    /// used leave the certificate as it was, and health says so.
    pub fn watch(self, deps: &Deps) {
        let Some(secure) = self.secure else { return };
        let help = "Times that the TLS files had changed and could not be used.";
        let watch = Watch {
            secure,
            health: deps.health.component("tls"),
            failures: deps.metrics.counter("tokenwatt_tls_reload_failures_total", help, &[]),
            failed: None,
        };
        watch.health.ready();
        deps.tasks.spawn("tls.watch", watch.run(deps.shutdown.token(Stage::Query)));
    }
}

/// Looks at the files.
struct Watch {
    secure: Arc<Secure>,
    health: Component,
    failures: Counter,
    /// Why the files could not be used the last time.
    failed: Option<String>,
}

impl Watch {
    async fn run(mut self, stop: CancellationToken) {
        let mut look = tokio::time::interval(LOOK_EVERY);
        loop {
            // Cancel safe: a look that was missed comes again.
            tokio::select! {
                _ = look.tick() => {}
                () = stop.cancelled() => return,
            }
            let files = self.secure.files.clone();
            if let Ok(read) = tokio::task::spawn_blocking(move || files.read()).await {
                self.take(read);
            }
        }
    }

    fn take(&mut self, read: Result<(ServerConfig, files::Fingerprint)>) {
        let (server, fingerprint) = match read {
            Ok(read) => read,
            Err(error) => return self.fail(chain(&error)),
        };
        let mut current = self.secure.current.write();
        let changed = current.fingerprint != fingerprint;
        if changed {
            *current = Loaded { server: Arc::new(server), fingerprint };
            tracing::info!(cert = ?self.secure.files.cert, "the certificate was read again");
        }
        if self.failed.take().is_some() {
            self.health.ready();
        }
    }

    fn fail(&mut self, reason: String) {
        if self.failed.as_ref() != Some(&reason) {
            self.failures.inc();
            tracing::error!(error = reason, "the TLS files cannot be used; the certificate before stays");
            self.health.degraded(format!("the certificate before stays: {reason}"));
        }
        self.failed = Some(reason);
    }
}

/// DNS names and URIs of a certificate. The common name is not read: it has no defined meaning, and all current issuers fill
/// in the alternative names.
fn names(certificate: &CertificateDer<'_>) -> Arc<[String]> {
    let Ok(certificate) = webpki::EndEntityCert::try_from(certificate) else { return Arc::default() };
    certificate.valid_dns_names().chain(certificate.valid_uri_names()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
