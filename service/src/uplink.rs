//! The way from a service to its collector: OTLP/gRPC, with a token where one is set and under TLS where the endpoint says
//! `https`. The handshake is done here, so that the gRPC library needs no TLS of its own.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::http::Uri;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::transport::{Channel, Endpoint};

use crate::error::{Error, Result};
use crate::secret::Secret;

/// Time for connecting and the handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How a service proves itself to its collector, and the collector to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Credentials {
    /// Token of a writer, where the collector asks for one.
    pub token: Option<Secret>,
    /// PEM file with the authorities that vouch for an `https` collector; those of the system by default.
    pub ca: Option<PathBuf>,
    /// PEM file with the client certificate that is shown to an `https` collector.
    pub cert: Option<PathBuf>,
    /// PEM file with its private key.
    pub key: Option<PathBuf>,
}

/// A collector elsewhere.
#[derive(Clone)]
pub struct Uplink {
    endpoint: Endpoint,
    secure: Option<Secure>,
    token: Option<MetadataValue<Ascii>>,
}

#[derive(Clone)]
struct Secure {
    connector: TlsConnector,
    name: ServerName<'static>,
    host: String,
    port: u16,
}

impl Uplink {
    /// The collector at `endpoint`, such as `http://127.0.0.1:4317`; `key` is the setting that holds it. An answer may take
    /// `timeout`.
    ///
    /// # Errors
    /// `Invalid` for an endpoint, a token or authorities that cannot be used.
    pub fn new(key: &str, endpoint: &str, credentials: &Credentials, timeout: Duration) -> Result<Self> {
        let unusable =
            || format!("`{key}` {endpoint} is no address of a collector; give http://host:port or https://host:port");
        let endpoint = Endpoint::from_shared(endpoint.to_owned())
            .map_err(|error| Error::invalid(unusable()).with_source(error))?
            .timeout(timeout);
        let secure = match endpoint.uri().scheme_str() {
            Some("http") => None,
            Some("https") => Some(Secure::new(endpoint.uri(), credentials)?),
            _ => return Err(Error::invalid(unusable())),
        };
        let token = credentials.token.as_ref().map(bearer).transpose()?;
        Ok(Self { endpoint, secure, token })
    }

    /// The collector's address.
    #[must_use]
    pub fn address(&self) -> String {
        self.endpoint.uri().to_string()
    }

    /// A connection that is made when it is first used.
    #[must_use]
    pub fn channel(&self) -> Channel {
        match &self.secure {
            None => self.endpoint.connect_lazy(),
            Some(secure) => {
                let secure = secure.clone();
                self.endpoint.connect_with_connector_lazy(tower::service_fn(move |_: Uri| secure.clone().connect()))
            }
        }
    }

    /// What goes with each request.
    #[must_use]
    pub fn metadata(&self) -> MetadataMap {
        let mut metadata = MetadataMap::new();
        if let Some(token) = &self.token {
            metadata.insert("authorization", token.clone());
        }
        metadata
    }
}

fn bearer(token: &Secret) -> Result<MetadataValue<Ascii>> {
    let value: std::result::Result<MetadataValue<Ascii>, _> = format!("Bearer {}", token.expose()).parse();
    let mut value = value.map_err(|_| Error::invalid("the collector's token holds characters that no header can"))?;
    value.set_sensitive(true);
    Ok(value)
}

impl Secure {
    fn new(uri: &Uri, credentials: &Credentials) -> Result<Self> {
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = match host.parse::<IpAddr>() {
            Ok(ip) => ServerName::from(ip),
            Err(_) => ServerName::try_from(host.clone())
                .map_err(|error| Error::invalid(format!("`{host}` is no name of a host")).with_source(error))?,
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::internal("set up TLS").with_source(error))?
            .with_root_certificates(roots(credentials)?);
        let mut config = match (&credentials.cert, &credentials.key) {
            (None, None) => config.with_no_client_auth(),
            (Some(cert), Some(key)) => {
                let unusable = |what: &Path| Error::invalid(format!("{} cannot be used", what.display()));
                let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key).with_source(error))?;
                let certs = certificates(cert)?;
                config.with_client_auth_cert(certs, private).map_err(|error| unusable(cert).with_source(error))?
            }
            _ => return Err(Error::invalid("a client certificate and its key belong together; give both or none")),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        let connector = TlsConnector::from(Arc::new(config));
        Ok(Self { connector, name, host, port: uri.port_u16().unwrap_or(443) })
    }

    async fn connect(self) -> std::io::Result<TokioIo<TlsStream<TcpStream>>> {
        let connecting = async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
            stream.set_nodelay(true)?;
            self.connector.connect(self.name, stream).await
        };
        Ok(TokioIo::new(tokio::time::timeout(CONNECT_TIMEOUT, connecting).await??))
    }
}

fn roots(credentials: &Credentials) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match &credentials.ca {
        Some(path) => {
            roots.add_parsable_certificates(certificates(path)?);
            if roots.is_empty() {
                return Err(Error::invalid(format!("{} holds no authority", path.display())));
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(Error::invalid("this system trusts no certificate authority")
                    .with_hint("install ca-certificates, or name the collector's authority in `ca`"));
            }
        }
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read: std::result::Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(|read| read.collect());
    let certificates =
        read.map_err(|error| Error::invalid(format!("{} cannot be read as PEM", path.display())).with_source(error))?;
    if certificates.is_empty() {
        return Err(Error::invalid(format!("{} holds no certificate in PEM", path.display())));
    }
    Ok(certificates)
}
