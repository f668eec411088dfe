//! The dashboard where readers are named: who gets in, what each sees, and what nobody gets.

use reqwest::StatusCode;
use reqwest::redirect::Policy;

use crate::tls::token;
use crate::world::{PATIENCE, Server, World, client_within, tokenwatt};

/// Markup, as the name of a reader and of what a budget is for.
const ODD: &str = "<img src=x onerror=pwned=1>";

fn principal(name: &str, role: &str, hash: &str, tenants: &str) -> String {
    format!(
        "[[principal]]\nname = \"{name}\"\nrole = \"{role}\"\ntoken_sha256 = \"{hash}\"\ntenants = [\"{tenants}\"]\n"
    )
}

/// Attacks in Chromium: markup in every text of telemetry, pages of other sites, planted sessions, links that lead away, others' rows.
#[tokio::test(flavor = "multi_thread")]
async fn intruders_get_nothing_from_the_dashboard() {
    let world = World::new();
    let tokens: [(String, String); 4] = std::array::from_fn(|_| token());
    let [agent, ann, acme, odd] = &tokens;
    let settings = [
        principal("agent", "writer", &agent.1, "*"),
        principal("ann", "reader", &ann.1, "*"),
        principal("acme", "reader", &acme.1, "acme"),
        principal(ODD, "reader", &odd.1, "*"),
        format!("[[budget]]\nname = \"odd\"\nkey = \"tenant\"\nvalue = \"{ODD}\"\nusd = \"10\"\nperiod = \"month\"\n"),
        "[[slo]]\nname = \"tight\"\nindicator = \"ttft_s\"\nthreshold = 0.5\nobjective = 0.99\n".to_owned(),
    ];
    let settings = world.write("named.toml", &settings.concat()).display().to_string();
    let server = world.up_with(&["--config", &settings]);
    let (http, otlp) = (server.http().to_owned(), server.otlp_http().to_owned());
    let given = [agent, ann, acme, odd].map(|(token, _)| token.clone());
    let attack = move || {
        let mut args = vec![http.as_str(), otlp.as_str()];
        args.extend(given.iter().map(String::as_str));
        client_within("intruder.py", &args, &[], 8 * PATIENCE)
    };
    let said = tokio::task::spawn_blocking(attack).await.expect("the attacks");
    assert!(said.ends_with("unharmed"), "{said}");

    let page = server.client().get(format!("{}/metrics", server.otlp_http())).send().await.expect("metrics");
    let page = page.text().await.expect("text");
    assert!(page.contains("tokenwatt_ui_logins_total{outcome=\"unknown\"} 1"), "{page}");
    assert!(page.contains("tokenwatt_ui_shares_total{outcome=\"made\"} 2"), "{page}");
    let output = server.output();
    assert!(output.contains("login refused") && !output.contains("panicked"), "{output}");
    for (token, _) in &tokens {
        assert!(!output.contains(token) && !page.contains(token), "a token is in the log or in the metrics");
    }
}

/// The cells of an answer on the SQL page.
fn cells(page: &str) -> Vec<&str> {
    let rows = page.split_once("aria-label=\"Rows\"").and_then(|(_, rest)| rest.split("</table>").next());
    let cells = rows.unwrap_or_default().split("<td").skip(1);
    cells.filter_map(|cell| cell.split_once('>')?.1.split('<').next()).collect()
}

/// Who is asked elsewhere answers a dashboard with the rights of whoever looks at it.
#[tokio::test(flavor = "multi_thread")]
async fn a_dashboard_elsewhere_passes_its_readers_on() {
    let world = World::new();
    let (desk, acme, ann) = (token(), token(), token());
    let shared = principal("acme", "reader", &acme.1, "acme") + &principal("ann", "reader", &ann.1, "*");
    let asked = world.write("asked.toml", &(principal("desk", "reader", &desk.1, "*") + &shared)).display().to_string();
    let server = world.up_with(&["--config", &asked]);
    let gone = token();
    let only = principal("gone", "reader", &gone.1, "zeta");
    let looked_at =
        world.write("desk.toml", &format!("[ui]\ntoken = \"{}\"\n{shared}{only}", desk.0)).display().to_string();
    let mut command = tokenwatt(&["ui", "--server", server.http(), "--config", &looked_at, "--http", "127.0.0.1:0"]);
    command.arg("--state").arg(world.path().join("desk")).current_dir(world.path());
    let desk = Server::start(&mut command);
    let browser = reqwest::Client::builder().redirect(Policy::none()).build().expect("a client");
    let login = browser.post(format!("{}/login", desk.http())).form(&[("token", acme.0.as_str()), ("next", "/sql")]);
    let entered = login.send().await.expect("an answer");
    assert_eq!(entered.status(), StatusCode::SEE_OTHER);
    let cookie = entered.headers()["set-cookie"].to_str().expect("text").split(';').next().expect("a pair").to_owned();
    let see = async |sql: &str, who: (&str, &str)| {
        let page = browser.get(format!("{}/sql", desk.http())).query(&[("q", sql)]).header(who.0, who.1);
        page.send().await.expect("a page").text().await.expect("text")
    };
    // The page names its reader and its tables anyway: what is looked at is the answer.
    let bound = see("SELECT * FROM nodes", ("cookie", &cookie)).await;
    assert!(bound.contains("data-refused=\"denied\""), "{bound}");
    let mine = "SELECT reader, front FROM system.audit WHERE reader <> 'x'";
    let seen = see(mine, ("cookie", &cookie)).await;
    assert_eq!(cells(&seen).chunks(2).next(), Some(["acme", "dashboard"].as_slice()), "{seen}");
    assert!(cells(&seen).chunks(2).all(|row| row == ["acme", "dashboard"]), "{seen}");
    let whole = see("SELECT count(*) AS n FROM nodes", ("authorization", &format!("Bearer {}", ann.0))).await;
    assert!(whole.contains("served by") && cells(&whole) == ["0"], "{whole}");
    assert!(!whole.contains("format=parquet"), "this port answers no /api/v1/sql, so nothing links to it: {whole}");
    let unknown = see("SELECT 1", ("authorization", &format!("Bearer {}", gone.0))).await;
    assert!(unknown.contains("no reader is called `gone` here"), "{unknown}");
    let (status, output) = desk.stop();
    assert!(status.success(), "{output}");
}

/// Where nobody has to prove anything a page whose own name leads here is told nothing; over every path of the port.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_asks_nobody_for_proof_answers_to_its_own_names_alone() {
    let world = World::new();
    let settings = world.write("names.toml", "[ui]\nnames = [\"tokens.example.com\"]\n").display().to_string();
    let server = world.up_with(&["--config", &settings]);
    let ask = async |path: &str, host: Option<&str>| {
        let request = server.client().post(format!("{}{path}", server.http())).body("SELECT 1 AS one");
        let request = host.iter().fold(request, |request, host| request.header("host", *host));
        let answer = request.header("content-type", "text/plain").send().await.expect("an answer");
        (answer.status(), answer.text().await.expect("text"))
    };
    for own in [None, Some("localhost:8080"), Some("tokens.example.com"), Some("query:8080")] {
        let (status, told) = ask("/api/v1/sql", own).await;
        assert!(status == StatusCode::OK && told.contains("one"), "{own:?}: {status} {told}");
    }
    for path in ["/api/v1/sql", "/sql", "/metrics", "/share", "/nowhere"] {
        let (status, told) = ask(path, Some("evil.example:8080")).await;
        let refused = status == StatusCode::FORBIDDEN && told.contains("asked as `evil.example`");
        assert!(refused && told.contains("ui.names"), "{path}: {status} {told}");
    }
}
