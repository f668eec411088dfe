//! The HTTP client of a group of targets, made again whenever the files of its certificates changed: they are renewed while the
//! collector runs.

use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use reqwest::tls::{Certificate, Identity};
use service::error::{Error, Result};

use super::Scrape;

/// Redirects followed.
const REDIRECTS_MAX: usize = 3;

/// A client and the certificates it was made with.
pub(super) struct Client {
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    made: Mutex<Option<(Certificates, reqwest::Client)>>,
}

/// What the files hold, PEM.
#[derive(PartialEq)]
struct Certificates {
    authorities: Option<Vec<u8>>,
    /// Certificate and private key.
    identity: Option<Vec<u8>>,
}

impl Client {
    pub(super) fn of(group: &Scrape) -> Self {
        Self { ca: group.ca.clone(), cert: group.cert.clone(), key: group.key.clone(), made: Mutex::new(None) }
    }

    /// The client, with the certificates that the files hold now.
    ///
    /// # Errors
    /// `Unavailable` for files that cannot be read or hold no certificates: the next scrape may find them mended.
    pub(super) async fn get(&self) -> Result<reqwest::Client> {
        let found = self.read().await?;
        let mut made = self.made.lock();
        match &*made {
            Some((certificates, client)) if *certificates == found => Ok(client.clone()),
            _ => {
                let client = self.make(&found)?;
                *made = Some((found, client.clone()));
                Ok(client)
            }
        }
    }

    async fn read(&self) -> Result<Certificates> {
        let authorities = read(self.ca.as_deref()).await?;
        let identity = read(self.cert.as_deref()).await?.zip(read(self.key.as_deref()).await?);
        Ok(Certificates { authorities, identity: identity.map(|(cert, key)| [cert, key].concat()) })
    }

    fn make(&self, certificates: &Certificates) -> Result<reqwest::Client> {
        let unusable = |path: &Option<PathBuf>, error| {
            let path = path.as_deref().unwrap_or(Path::new("")).display();
            Error::unavailable(format!("{path} cannot be used as certificates in PEM")).with_source(error)
        };
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("tokenwatt/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::limited(REDIRECTS_MAX))
            .no_proxy();
        if let Some(pem) = &certificates.authorities {
            let authorities = Certificate::from_pem_bundle(pem).map_err(|error| unusable(&self.ca, error))?;
            if authorities.is_empty() {
                let path = self.ca.as_deref().unwrap_or(Path::new("")).display();
                return Err(Error::unavailable(format!("{path} holds no certificate in PEM")));
            }
            builder = builder.tls_built_in_root_certs(false);
            builder = authorities.into_iter().fold(builder, reqwest::ClientBuilder::add_root_certificate);
        }
        if let Some(pem) = &certificates.identity {
            builder = builder.identity(Identity::from_pem(pem).map_err(|error| unusable(&self.cert, error))?);
        }
        builder.build().map_err(|error| Error::unavailable("make an HTTP client").with_source(error))
    }
}

async fn read(path: Option<&Path>) -> Result<Option<Vec<u8>>> {
    let Some(path) = path else { return Ok(None) };
    let bytes = tokio::fs::read(path).await;
    let bytes = bytes.map_err(|error| Error::unavailable(format!("read {}", path.display())).with_source(error))?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::extract::ConnectInfo;
    use axum::http::StatusCode;
    use axum::routing::get;
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
    use service::listen::{Limits, serve_http};
    use service::shutdown::CancellationToken;
    use service::tls::{self, Acceptor, Peer};
    use tempfile::TempDir;

    use super::*;
    use crate::scrape::fetch;

    type Issuer = CertifiedIssuer<'static, KeyPair>;

    fn issuer() -> Issuer {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    /// Writes `NAME.pem` and `NAME.key`.
    fn issue(issuer: &Issuer, directory: &TempDir, name: &str, alternative: SanType) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = vec![alternative];
        let paths = ["pem", "key"].map(|end| directory.path().join(format!("{name}.{end}")));
        std::fs::write(&paths[0], params.signed_by(&key, issuer).unwrap().pem()).unwrap();
        std::fs::write(&paths[1], key.serialize_pem()).unwrap();
        paths.into()
    }

    /// Who is not vouched for by the group's own authorities is not asked, who shows no certificate is not answered, and files that
    /// are renewed hold with the next scrape.
    #[tokio::test]
    async fn targets_behind_tls_are_scraped_with_the_certificates_of_now() {
        let (directory, authority) = (tempfile::tempdir().unwrap(), issuer());
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("ca.pem"), issuer().pem()).unwrap();
        std::fs::write(path("clients.pem"), authority.pem()).unwrap();
        let (cert, key) = issue(&authority, &directory, "server", SanType::DnsName("localhost".try_into().unwrap()));
        let server = tls::Config { cert: Some(cert), key: Some(key), client_ca: Some(path("clients.pem")) };
        let metrics = |ConnectInfo(peer): ConnectInfo<Peer>| async move {
            if peer.names().is_empty() { Err(StatusCode::UNAUTHORIZED) } else { Ok("up_to_date 1\n") }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}/metrics", listener.local_addr().unwrap().port()).parse().unwrap();
        let router = Router::new().route("/metrics", get(metrics));
        let acceptor = Acceptor::load(&server).unwrap();
        tokio::spawn(async move {
            serve_http(listener, &acceptor, Limits::default(), router, CancellationToken::new()).await
        });

        let group = Scrape { ca: Some(path("ca.pem")), ..Scrape::default() };
        let shown = Scrape { cert: Some(path("node.pem")), key: Some(path("node.key")), ..group.clone() };
        let [unnamed, named] = [group, shown].map(|group| Client::of(&group));
        let ask = async |client: &Client| {
            fetch::fetch(&client.get().await?, &url, None, 1_000, 5.0).await.and_then(|fetched| fetched.text())
        };
        let error = ask(&unnamed).await.unwrap_err();
        assert!(service::error::chain(&error).contains("certificate"), "{}", service::error::chain(&error));
        let missing = ask(&named).await.unwrap_err().to_string();
        assert!(missing.contains("node.pem"), "{missing}");

        std::fs::write(path("ca.pem"), authority.pem()).unwrap();
        issue(&authority, &directory, "node", SanType::URI("spiffe://fleet/scraper".try_into().unwrap()));
        assert!(ask(&unnamed).await.unwrap_err().to_string().contains("401"));
        assert_eq!(ask(&named).await.unwrap(), "up_to_date 1\n");
    }
}
