//! TLS end to end: OpenTelemetry's own exporters with a token and with a client certificate, SQL for readers, and a certificate
//! that is replaced while the server runs.

use std::path::{Path, PathBuf};
use std::time::Instant;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use serde_json::json;

use crate::world::{PATIENCE, World, client, finish, tokenwatt};

/// An authority with its file, and what it issues.
pub(crate) struct Issuer {
    pub(crate) ca: PathBuf,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Issuer {
    pub(crate) fn new(ca: PathBuf) -> Issuer {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // OpenSSL takes a certificate for self-signed whose issuer is called as itself.
        params.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().expect("a key");
        let authority = CertifiedIssuer::self_signed(params, key).expect("an authority");
        std::fs::write(&ca, authority.pem()).expect("write");
        Issuer { ca, authority }
    }

    /// Writes `<path>.crt` and `<path>.key`.
    pub(crate) fn issue(&self, path: &Path, names: Vec<SanType>) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.subject_alt_names = names;
        params.distinguished_name.push(DnType::CommonName, "issued");
        let cert = params.signed_by(&key, &self.authority).expect("a certificate");
        std::fs::write(path.with_extension("key"), key.serialize_pem()).expect("write");
        std::fs::write(path.with_extension("crt"), cert.pem()).expect("write");
    }

    /// Issues the server's certificate.
    pub(crate) fn issue_server(&self, path: &Path) {
        let localhost = SanType::DnsName("localhost".try_into().expect("a name"));
        self.issue(path, vec![localhost, SanType::IpAddress([127, 0, 0, 1].into())]);
    }

    /// A client that trusts this authority alone.
    fn client(&self) -> reqwest::Client {
        let ca = reqwest::Certificate::from_pem(&std::fs::read(&self.ca).expect("read")).expect("a certificate");
        reqwest::Client::builder().add_root_certificate(ca).build().expect("a client")
    }
}

/// A token and its hash, as the binary prints them.
pub(crate) fn token() -> (String, String) {
    let output = finish(&mut tokenwatt(&["token"]));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(first, _)| *first == name).map(|(_, rest)| rest.trim().to_owned()).expect("a field")
    };
    (field("token"), field("token_sha256"))
}

#[tokio::test(flavor = "multi_thread")]
async fn real_exporters_under_tls_with_tokens_and_certificates() {
    let world = World::new();
    let issuer = Issuer::new(world.path().join("ca.pem"));
    let (server_files, node_files) = (world.path().join("server"), world.path().join("node"));
    issuer.issue_server(&server_files);
    issuer.issue(&node_files, vec![SanType::URI("spiffe://fleet/node".try_into().expect("a URI"))]);
    let ((writer, writer_hash), (reader, reader_hash)) = (token(), token());
    let settings = format!(
        "[tls]\ncert = \"{0}.crt\"\nkey = \"{0}.key\"\nclient_ca = \"{1}\"\n\
         [[principal]]\nname = \"agent\"\nrole = \"writer\"\ntoken_sha256 = \"{writer_hash}\"\ntenants = [\"*\"]\n\
         [[principal]]\nname = \"mesh\"\nrole = \"writer\"\ncertificate = \"spiffe://fleet/node\"\ntenants = [\"*\"]\n\
         [[principal]]\nname = \"people\"\nrole = \"reader\"\ntoken_sha256 = \"{reader_hash}\"\ntenants = [\"*\"]\n",
        server_files.display(),
        issuer.ca.display()
    );
    let settings = world.write("protected.toml", &settings).display().to_string();
    let server = world.up_with(&["--config", &settings]);
    let path = |path: &Path| path.display().to_string();
    let (ca, cert, key) =
        (path(&issuer.ca), path(&node_files.with_extension("crt")), path(&node_files.with_extension("key")));
    let (grpc, http) = (server.otlp_grpc(), server.otlp_http());
    assert_eq!(client("tls.py", &[grpc, http, &ca, "token", &writer, "by-token"], &[]), "sent");
    assert_eq!(client("tls.py", &[grpc, http, &ca, "cert", &cert, &key, "by-cert"], &[]), "sent");

    let https = issuer.client();
    let sql =
        "SELECT count(*) FROM spans WHERE name IN ('by-token-grpc', 'by-token-http', 'by-cert-grpc', 'by-cert-http')";
    let ask = |token: Option<&str>| {
        let post = https.post(format!("{}/api/v1/sql", server.http())).json(&json!({ "sql": sql }));
        token.into_iter().fold(post, |post, token| post.bearer_auth(token)).send()
    };
    for (token, status) in [(None, 401), (Some(writer.as_str()), 403)] {
        assert_eq!(ask(token).await.expect("an answer").status(), status);
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = ask(Some(&reader)).await.expect("an answer").text().await.expect("text");
        if answer.contains("\"rows\":[[4]]") {
            break;
        }
        assert!(Instant::now() < deadline, "{answer}\n{}", server.output());
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }

    // Another authority takes over while the server runs.
    let next = Issuer::new(world.path().join("next.pem"));
    next.issue_server(&server_files);
    let (health, renewed) = (format!("{}/readyz", server.http()), next.client());
    let deadline = Instant::now() + PATIENCE;
    while !renewed.get(&health).send().await.is_ok_and(|answer| answer.status().is_success()) {
        assert!(Instant::now() < deadline, "the new certificate is not taken\n{}", server.output());
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
    let (status, output) = server.stop();
    assert!(status.success(), "{output}");
}
