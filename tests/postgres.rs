//! SQL over PostgreSQL's wire protocol with the clients that people use: psql, psycopg, SQLAlchemy, ADBC, and what Grafana asks.

use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};

use crate::sender::Sender;
use crate::world::{Server, World, client, finish, tokenwatt};

async fn world_with_rows() -> (World, Server) {
    let world = World::new();
    let server = world.up();
    Sender::new(1).send(server.otlp_grpc(), 3).await.expect("send");
    for table in ["spans", "requests", "tokens", "logs", "metrics"] {
        server.until_at_least(&format!("SELECT count(*) FROM {table}"), 1).await;
    }
    (world, server)
}

/// The same server for all parts: what one does is not to be seen by the next.
#[tokio::test(flavor = "multi_thread")]
async fn clients_of_postgresql_are_answered() {
    let (_world, server) = world_with_rows().await;
    let (url, http) = (server.address("postgresql").to_owned(), server.http().to_owned());
    let parts = [
        ("types", "same"),
        ("statements", "answered"),
        ("refusals", "refused"),
        ("cancel", "stopped"),
        ("crowd", "undisturbed"),
        ("sqlalchemy", "reflected"),
        ("adbc", "read"),
        ("grafana", "drawn"),
    ];
    let asked = tokio::task::spawn_blocking(move || {
        for (part, answer) in parts {
            assert_eq!(client("postgres.py", &[part, &url, &http], &[]), answer, "{part}");
        }
    });
    asked.await.expect("all parts");
    let metrics = server.client().get(format!("{}/metrics", server.http())).send().await.expect("metrics");
    let metrics = metrics.text().await.expect("text");
    assert!(metrics.contains("tokenwatt_query_connections{front=\"postgresql\"} 0"), "{metrics}");
    let (status, output) = server.stop();
    assert!(status.success(), "{output}");
}

/// What psql prints; its own errors are an empty answer.
fn psql(url: &str, command: &str) -> String {
    let output = finish(Command::new("psql").args(["-X", "-v", "ON_ERROR_STOP=1", url, "-c", command]));
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && errors.is_empty(), "{command}:\n{text}\n{errors}");
    text.into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_finds_its_way() {
    let (_world, server) = world_with_rows().await;
    let url = server.address("postgresql").to_owned();
    let looked = tokio::task::spawn_blocking(move || {
        for (command, shown) in [
            ("\\l", &["tokenwatt", "UTF8"][..]),
            ("\\dn", &["public", "system"]),
            ("\\dt", &["requests", "tokens", "table"]),
            ("\\dv", &["calls", "cost_per_region", "view"]),
            ("\\d", &["calls", "requests"]),
            ("\\dt system.*", &["freshness"]),
            ("\\d requests", &["output_tokens", "bigint", "timestamp with time zone", "jsonb"]),
            ("\\d+ requests", &["ttft_s", "double precision", "[s]"]),
            ("\\d+ ttft", &["View \"public.ttft\"", "View definition"]),
            ("\\d+ prices", &["numeric(38,12)"]),
            ("\\df", &["List of functions"]),
            ("\\conninfo", &["tokenwatt"]),
            ("SELECT count(*) > 0 AS some FROM spans", &["some", "t", "(1 row)"]),
            ("BEGIN; SELECT 41 + 1 AS answer; COMMIT", &["42"]),
        ] {
            let text = psql(&url, command);
            for word in shown {
                assert!(text.contains(word), "{command} shows no {word}:\n{text}");
            }
        }
        let hidden = psql(&url, "\\dt");
        assert!(!hidden.contains("freshness") && !hidden.contains("pg_class"), "{hidden}");
    });
    looked.await.expect("psql");
}

/// What `tokenwatt token` prints: a token, its hash, and what a proof of it is checked against.
pub(crate) fn token() -> (String, String, String) {
    let output = finish(&mut tokenwatt(&["token"]));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(first, _)| *first == name).map(|(_, rest)| rest.trim().to_owned()).expect("a field")
    };
    (field("token"), field("token_sha256"), field("scram"))
}

/// Who asks over the URL, or how it is refused.
fn ask(url: &str) -> String {
    client("postgres.py", &["ask", url], &[])
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_proven_before_anything_is_asked() {
    let world = World::new();
    let ((secret, hash, scram), (other, other_hash, other_scram)) = (token(), token());
    let settings = format!(
        "[[principal]]\nname = \"people\"\nrole = \"reader\"\ntoken_sha256 = \"{hash}\"\nscram = \"{scram}\"\ntenants = [\"*\"]\n\
         [[principal]]\nname = \"nodes\"\nrole = \"writer\"\ntoken_sha256 = \"{other_hash}\"\nscram = \"{other_scram}\"\ntenants = [\"*\"]\n"
    );
    let settings = world.write("named.toml", &settings).display().to_string();
    let server = world.up_with(&["--config", &settings]);
    let at = server.address("postgresql").trim_start_matches("postgresql://").to_owned();
    let asked = tokio::task::spawn_blocking(move || {
        let url = |user: &str, password: &str| format!("postgresql://{user}:{password}@{at}");
        assert_eq!(ask(&url("people", &secret)), "people");
        let wrong = ask(&url("people", &other));
        assert!(wrong.contains("password authentication failed for user \"people\""), "{wrong}");
        let nobody = ask(&url("nobody", &secret));
        assert_eq!(nobody.replace("nobody", "people"), wrong, "a name is not told from a password");
        assert!(ask(&url("nodes", &other)).contains("`nodes` is no reader"));
        let elsewhere = ask(&format!("postgresql://people:{secret}@{}", at.replace("/tokenwatt", "/elsewhere")));
        assert!(elsewhere.contains("database \"elsewhere\" does not exist"), "{elsewhere}");
    });
    asked.await.expect("logins");
}

/// A principal's settings.
fn principal(name: &str, role: &str, (_, hash, scram): &(String, String, String), expires: &str) -> String {
    format!(
        "[[principal]]\nname = \"{name}\"\nrole = \"{role}\"\ntoken_sha256 = \"{hash}\"\nscram = \"{scram}\"\n\
         tenants = [\"*\"]\n{expires}"
    )
}

/// What psql says when it ends with an error, in one line.
fn psql_refused(url: &str, command: &str) -> String {
    let output = finish(Command::new("psql").args(["-X", "-v", "ON_ERROR_STOP=1", url, "-c", command]));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{command} is not refused:\n{errors}");
    errors.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Wrong passwords, tokens that have expired and all that would write are refused with the reason, whatever driver is used.
#[tokio::test(flavor = "multi_thread")]
async fn every_driver_is_refused_in_words() {
    let world = World::new();
    let (people, former) = (token(), token());
    let settings = principal("people", "reader", &people, "expires = 2999-01-01\n")
        + &principal("former", "reader", &former, "expires = \"2020-01-01\"\n");
    let settings = world.write("dated.toml", &settings).display().to_string();
    let server = world.up_with(&["--config", &settings]);
    let at = server.address("postgresql").trim_start_matches("postgresql://").to_owned();
    let asked = tokio::task::spawn_blocking(move || {
        let url = |user: &str, (secret, ..): &(String, String, String)| format!("postgresql://{user}:{secret}@{at}");
        let each = |part: &str, url: &str| -> Vec<String> {
            client("postgres.py", &[part, url], &[]).lines().map(str::to_owned).collect()
        };
        let good = url("people", &people);
        assert_eq!(each("login", &good), ["psycopg: people", "sqlalchemy: people", "adbc: people"]);
        for (url, words) in [
            (url("people", &former), "password authentication failed for user \"people\""),
            (url("former", &people), "password authentication failed for user \"former\""),
            (url("former", &former), "the token of `former` expired at 2020-01-01T00:00:00Z"),
        ] {
            let said = each("login", &url);
            assert!(said.len() == 3 && said.iter().all(|line| line.contains(words)), "{said:?}");
            let said = psql_refused(&url, "SELECT 1");
            assert!(said.contains(words) && said.contains("FATAL"), "{said}");
        }
        let said = psql_refused(&url("former", &former), "SELECT 1");
        assert!(said.contains("tokenwatt token"), "it says what to do: {said}");
        assert_eq!(each("writes", &good), ["psycopg: 15 refused", "sqlalchemy: 9 refused", "adbc: 9 refused"]);
        for command in [
            "INSERT INTO requests (region) VALUES ('x')",
            "CREATE TABLE t AS SELECT 1",
            "\\copy requests FROM '/etc/hostname'",
        ] {
            assert!(psql_refused(&good, command).contains("only reads"), "{command}");
        }
    });
    asked.await.expect("all drivers");
}

/// A token that expires while its holder is connected ends the connection; OTLP and HTTP refuse one that has expired, and `check` and
/// `/metrics` say when.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_expire_wherever_they_are_shown() {
    let world = World::new();
    let (leaver, former, agent) = (token(), token(), token());
    // Long enough for a start and a first question.
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(40);
    let settings = principal("leaver", "reader", &leaver, &format!("expires = \"{soon}\"\n"))
        + &principal("former", "reader", &former, "expires = \"2020-01-01\"\n")
        + &principal("agent", "writer", &agent, "expires = \"2020-01-01T12:00:00Z\"\n");
    let settings = world.write("dated.toml", &settings).display().to_string();
    let server = world.up_with(&["--config", &settings]);
    let at = server.address("postgresql").trim_start_matches("postgresql://").to_owned();
    let url = format!("postgresql://leaver:{}@{at}", leaver.0);
    let leaving = tokio::task::spawn_blocking(move || client("postgres.py", &["leaving", &url], &[]));

    let sql = server.client().post(format!("{}/api/v1/sql", server.http()));
    let sql = sql.json(&serde_json::json!({"sql": "SELECT 1"}));
    let otlp = server.client().post(format!("{}/v1/traces", server.otlp_http())).body("{}");
    let otlp = otlp.header("content-type", "application/json");
    for (request, (token, ..), words) in
        [(sql, former, "`former` expired at"), (otlp, agent, "`agent` expired at 2020-01-01T12:00:00Z")]
    {
        let answer = request.bearer_auth(token).send().await.expect("an answer");
        assert_eq!(answer.status(), 401);
        let body = answer.text().await.expect("a body");
        assert!(body.contains(words), "{body}");
    }
    let metrics = server.client().get(format!("{}/metrics", server.otlp_http())).send().await.expect("metrics");
    let metrics = metrics.text().await.expect("text");
    let dated = "tokenwatt_token_expires_timestamp_seconds{principal=\"former\"} 1577836800";
    assert!(metrics.contains(dated), "{metrics}");
    let checked = finish(tokenwatt(&["check", "--config", &settings]).current_dir(world.path()));
    let checked = String::from_utf8_lossy(&checked.stdout).into_owned();
    for word in ["`former`: expired at 2020-01-01T00:00:00Z", "`leaver`: expires at "] {
        assert!(checked.contains(&format!("note  token of principal {word}")), "{checked}");
    }

    let said = leaving.await.expect("the client");
    let (ended, again) = said.split_once('\n').expect("two lines");
    assert!(!ended.starts_with("0 answers") && ended.contains("the token of `leaver` expired at"), "{said}");
    assert!(again.contains("the token of `leaver` expired at"), "{said}");
}

/// Under TLS a token will do where there is no verifier, a certificate where it names the user; without TLS nothing will.
#[tokio::test(flavor = "multi_thread")]
async fn tls_is_not_left_out() {
    let world = World::new();
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "authority");
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
    let ca = world.write("ca.pem", &authority.pem()).display().to_string();
    let issue = |name: &str, names: Vec<SanType>| {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.subject_alt_names = names;
        let cert = params.signed_by(&key, &authority).expect("a certificate");
        let key = world.write(&format!("{name}.key"), &key.serialize_pem());
        // libpq takes no key that others may read.
        std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("permissions");
        (world.write(&format!("{name}.crt"), &cert.pem()).display().to_string(), key.display().to_string())
    };
    let dns = |name: &str| SanType::DnsName(name.try_into().expect("a name"));
    let (cert, key) = issue("server", vec![dns("localhost")]);
    let (own_cert, own_key) = issue("client", vec![dns("psql.fleet")]);
    let (secret, hash, _) = token();
    let settings = format!(
        "[tls]\ncert = \"{cert}\"\nkey = \"{key}\"\nclient_ca = \"{ca}\"\n\
         [[principal]]\nname = \"people\"\nrole = \"reader\"\ntoken_sha256 = \"{hash}\"\ntenants = [\"*\"]\n\
         [[principal]]\nname = \"mesh\"\nrole = \"reader\"\ncertificate = \"psql.fleet\"\ntenants = [\"*\"]\n"
    );
    let settings = world.write("protected.toml", &settings).display().to_string();
    let server = world.up_with(&["--config", &settings]);
    let port = server.address("postgresql").rsplit(':').next().expect("a port").to_owned();
    let asked = tokio::task::spawn_blocking(move || {
        let url =
            |user: &str, mode: &str| format!("postgresql://{user}@localhost:{port}?sslmode={mode}&sslrootcert={ca}");
        assert_eq!(ask(&url(&format!("people:{secret}"), "verify-full")), "people");
        let own = format!("{}&sslcert={own_cert}&sslkey={own_key}", url("mesh", "verify-full"));
        assert_eq!(ask(&own), "mesh");
        let plain = ask(&url(&format!("people:{secret}"), "disable"));
        assert!(plain.contains("under TLS only"), "{plain}");
        let wrong = ask(&url("people:tw_wrong", "verify-full"));
        assert!(wrong.contains("password authentication failed for user \"people\""), "{wrong}");
    });
    asked.await.expect("logins");
}
