//! The files of `[tls]`, and the server settings made of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ring::digest::{Context, SHA256};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Protocols offered, the better first. PostgreSQL's clients name theirs too, and are refused where none of them is known.
const ALPN: [&[u8]; 3] = [b"h2", b"http/1.1", b"postgresql"];

/// Settings of TLS, for every port of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// PEM file with the certificate and those that lead to its root. Without it there is no TLS.
    pub cert: Option<PathBuf>,
    /// PEM file with the certificate's private key.
    pub key: Option<PathBuf>,
    /// PEM file with the authorities whose client certificates name principals.
    pub client_ca: Option<PathBuf>,
}

/// What tells one content of the files from another.
pub(super) type Fingerprint = Vec<u8>;

impl Config {
    /// Whether there is TLS.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.cert.is_some()
    }

    /// Adds one line for every rule broken.
    pub fn validate(&self, faults: &mut Vec<String>) {
        if self.cert.is_some() != self.key.is_some() {
            faults.push("`tls.cert` and `tls.key` belong together; give both or none".to_owned());
        }
        if self.client_ca.is_some() && self.cert.is_none() {
            faults.push("`tls.client_ca` needs `tls.cert` and `tls.key`".to_owned());
        }
    }

    /// Reads the files.
    pub(super) fn read(&self) -> Result<(ServerConfig, Fingerprint)> {
        let (Some(cert), Some(key)) = (&self.cert, &self.key) else {
            return Err(Error::invalid("`tls.cert` and `tls.key` belong together; give both or none"));
        };
        let mut hash = Context::new(&SHA256);
        let certs = certificates(cert, &mut hash)?;
        let key_bytes = read(key, &mut hash)?;
        let private = PrivateKeyDer::from_pem_slice(&key_bytes).map_err(|error| {
            Error::invalid(format!("{} holds no private key in PEM", key.display())).with_source(error)
        })?;
        let authorities = self.client_ca.as_ref().map(|path| certificates(path, &mut hash)).transpose()?;
        let mut server = server(certs, private, authorities)?;
        server.alpn_protocols = ALPN.iter().map(|name| name.to_vec()).collect();
        Ok((server, hash.finish().as_ref().to_vec()))
    }
}

fn server(
    certs: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    authorities: Option<Vec<CertificateDer<'static>>>,
) -> Result<ServerConfig> {
    let unusable = |what: &str, error| Error::invalid(format!("{what} cannot be used")).with_source(error);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("the TLS versions", error))?;
    let builder = match authorities {
        None => builder.with_no_client_auth(),
        Some(authorities) => {
            let mut roots = RootCertStore::empty();
            for authority in authorities {
                roots.add(authority).map_err(|error| unusable("a certificate of `tls.client_ca`", error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|error| Error::invalid("`tls.client_ca` cannot be used").with_source(error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    builder.with_single_cert(certs, key).map_err(|error| unusable("the certificate with its key", error))
}

fn certificates(path: &Path, hash: &mut Context) -> Result<Vec<CertificateDer<'static>>> {
    let bytes = read(path, hash)?;
    let certificates: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let certificates = certificates
        .map_err(|error| Error::invalid(format!("{} is no PEM file", path.display())).with_source(error))?;
    if certificates.is_empty() {
        return Err(Error::invalid(format!("{} holds no certificate in PEM", path.display())));
    }
    Ok(certificates)
}

/// The file's bytes, which are also hashed.
fn read(path: &Path, hash: &mut Context) -> Result<Vec<u8>> {
    let bytes = fs::read(path)
        .map_err(|error| Error::invalid(format!("{} cannot be read", path.display())).with_source(error))?;
    hash.update(&(bytes.len() as u64).to_le_bytes());
    hash.update(&bytes);
    Ok(bytes)
}
