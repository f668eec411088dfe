use std::fs;
use std::path::{Path, PathBuf};

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::health::Health;
use crate::listen;

/// An authority in a directory of its own, and what it issues.
struct Issuer {
    dir: tempfile::TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Issuer {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("ca.pem"), authority.pem()).unwrap();
        Self { dir, authority }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes `<name>.pem` and `<name>.key` for these alternative names.
    fn issue(&self, name: &str, names: &[SanType]) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = names.to_vec();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        fs::write(self.path(&format!("{name}.pem")), certificate.pem()).unwrap();
        fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    fn config(&self, client_ca: bool) -> Config {
        Config {
            cert: Some(self.path("server.pem")),
            key: Some(self.path("server.key")),
            client_ca: client_ca.then(|| self.path("ca.pem")),
        }
    }

    /// A client that trusts `self` and shows the certificate called `own`, if any.
    fn client(&self, own: Option<(&Issuer, &str)>) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path("ca.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some((issuer, name)) => {
                let file = |ending: &str| issuer.path(&format!("{name}.{ending}"));
                let certs = vec![CertificateDer::from_pem_file(file("pem")).unwrap()];
                builder.with_client_auth_cert(certs, PrivateKeyDer::from_pem_file(file("key")).unwrap()).unwrap()
            }
        };
        TlsConnector::from(Arc::new(config))
    }
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

/// An issuer with a certificate for localhost.
fn issuer() -> Issuer {
    let issuer = Issuer::new();
    issuer.issue("server", &[dns("localhost")]);
    issuer
}

/// What the server answers to `GET /`: the names that it sees.
async fn ask(addr: SocketAddr, client: &TlsConnector) -> std::io::Result<String> {
    let stream = TcpStream::connect(addr).await?;
    let mut stream = client.connect(ServerName::try_from("localhost").unwrap(), stream).await?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.rsplit("\r\n").next().unwrap_or_default().to_owned())
}

async fn serve(acceptor: &Acceptor) -> (SocketAddr, CancellationToken) {
    let listener = listen::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let (addr, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    let names = |ConnectInfo(peer): ConnectInfo<Peer>| async move { format!("names: {}", peer.names().join(" ")) };
    let router = Router::new().route("/", get(names));
    let (acceptor, ending) = (acceptor.clone(), stop.clone());
    tokio::spawn(
        async move { listen::serve_http(listener, &acceptor, listen::Limits::default(), router, ending).await },
    );
    (addr, stop)
}

/// A client certificate of the right authority gives names; none gives none; a stranger's is refused.
#[tokio::test]
async fn client_certificates_give_names() {
    let (issuer, stranger) = (issuer(), Issuer::new());
    let names = [dns("node.fleet"), SanType::URI("spiffe://fleet/node".try_into().unwrap())];
    issuer.issue("node", &names);
    stranger.issue("node", &names);
    let (addr, _stop) = serve(&Acceptor::load(&issuer.config(true)).unwrap()).await;
    let with = issuer.client(Some((&issuer, "node")));
    assert_eq!(ask(addr, &with).await.unwrap(), "names: node.fleet spiffe://fleet/node");
    assert_eq!(ask(addr, &issuer.client(None)).await.unwrap(), "names: ");
    ask(addr, &issuer.client(Some((&stranger, "node")))).await.unwrap_err();
}

/// Peers that never finish their handshake keep nobody else waiting, and plain HTTP on a TLS port is no request.
#[tokio::test]
async fn a_stalled_handshake_delays_nobody() {
    let issuer = issuer();
    let (addr, _stop) = serve(&Acceptor::load(&issuer.config(false)).unwrap()).await;
    let mut stalled = Vec::new();
    for _ in 0..8 {
        stalled.push(TcpStream::connect(addr).await.unwrap());
    }
    assert_eq!(ask(addr, &issuer.client(None)).await.unwrap(), "names: ");
    let mut plain = TcpStream::connect(addr).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
}

/// New files are taken without a restart; broken ones change nothing, and health says so until they are mended.
#[tokio::test]
async fn files_are_read_again() {
    let (stranger, issuer) = (issuer(), issuer());
    let acceptor = Acceptor::load(&issuer.config(true)).unwrap();
    let (health, failures) = (Health::new(), Counter::default());
    let secure = Arc::clone(acceptor.secure.as_ref().unwrap());
    let component = health.component("tls");
    component.ready();
    let mut watch = Watch { secure, health: component, failures: failures.clone(), failed: None };
    let (addr, _stop) = serve(&acceptor).await;

    watch.take(issuer.config(true).read());
    assert_eq!(failures.get(), 0);
    fs::copy(stranger.path("server.key"), issuer.path("server.key")).unwrap();
    let wrong_key = issuer.config(true).read();
    assert!(chain(wrong_key.as_ref().err().unwrap()).contains("certificate with its key"));
    watch.take(wrong_key);
    fs::write(issuer.path("server.key"), "no key").unwrap();
    for _ in 0..3 {
        watch.take(issuer.config(true).read());
    }
    assert_eq!(failures.get(), 2, "each fault once");
    assert!(health.ready() && health.alive());
    assert_eq!(ask(addr, &issuer.client(None)).await.unwrap(), "names: ", "the certificate before stays");

    for file in ["server.pem", "server.key", "ca.pem"] {
        fs::copy(stranger.path(file), issuer.path(file)).unwrap();
    }
    watch.take(issuer.config(true).read());
    assert_eq!(watch.failed, None);
    assert_eq!(ask(addr, &stranger.client(None)).await.unwrap(), "names: ");
}

/// What is wrong with files is said at the start, with the file's name.
#[test]
fn files_that_cannot_be_used_are_named() {
    let issuer = issuer();
    let fault = |config: &Config| chain(&Acceptor::load(config).err().unwrap());
    let swapped = Config { key: Some(issuer.path("server.pem")), ..issuer.config(false) };
    assert!(fault(&swapped).contains("server.pem holds no private key"), "{}", fault(&swapped));
    let empty = Config { cert: Some(issuer.path("server.key")), ..issuer.config(false) };
    assert!(fault(&empty).contains("server.key holds no certificate"), "{}", fault(&empty));
    let missing = Config { client_ca: Some(Path::new("/nowhere/ca.pem").to_owned()), ..issuer.config(false) };
    assert!(fault(&missing).contains("/nowhere/ca.pem cannot be read"), "{}", fault(&missing));
    let mut faults = Vec::new();
    Config { key: None, ..issuer.config(false) }.validate(&mut faults);
    Config { cert: None, key: None, ..issuer.config(true) }.validate(&mut faults);
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(Acceptor::load(&Config::default()).is_ok_and(|acceptor| acceptor.scheme() == "http"));
}
