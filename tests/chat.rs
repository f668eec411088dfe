//! Real input: the public `openai` client, a gateway, a node that computes real tokens on the CPU, and what SQL and the
//! dashboard say of it afterwards.

use serde_json::Value;

use crate::world::{Server, World, client, model, tokenwatt};

const MODEL: &str = "smollm2-135m";
const KEY: &str = "sk-acme-1";
const SECRET: &str = "between-gateway-and-node";

/// `tokenwatt node` with the small real model.
fn node(world: &World, otlp: &str) -> Server {
    let model = model();
    let config = world.write(
        "node.toml",
        &format!(
            r#"
            [node]
            http_addr = "127.0.0.1:0"
            otlp_endpoint = "{otlp}"
            fleet_secret = "{SECRET}"
            [node.identity]
            service = "cpu-node"
            region = "us-east-1"
            host_id = "laptop"
            [node.engine]
            kind = "cpu"
            [node.engine.cpu]
            model_path = "{}"
            model = "{MODEL}"
            "#,
            model.display()
        ),
    );
    Server::start(tokenwatt(&["node", "--config"]).arg(config))
}

/// `tokenwatt gateway` before that node.
fn gateway(world: &World, otlp: &str, node: &str) -> Server {
    let config = world.write(
        "gateway.toml",
        &format!(
            r#"
            [gateway]
            http_addr = "127.0.0.1:0"
            otlp_endpoint = "{otlp}"
            fleet_secret = "{SECRET}"
            [[gateway.nodes]]
            url = "{node}"
            region = "us-east-1"
            [[gateway.keys]]
            key = "{KEY}"
            tenant = "acme"
            "#
        ),
    );
    Server::start(tokenwatt(&["gateway", "--config"]).arg(config))
}

/// One streamed answer is the same to the client, in the tables and on its page.
#[tokio::test(flavor = "multi_thread")]
async fn a_streamed_answer_is_the_same_to_client_tables_and_page() {
    let world = World::new();
    let up = world.up();
    let node = node(&world, up.otlp_grpc());
    let gateway = gateway(&world, up.otlp_grpc(), node.address("node"));
    let address = gateway.address("gateway").to_owned();
    let seen =
        tokio::task::spawn_blocking(move || client("chat.py", &[&address, MODEL, KEY], &[])).await.expect("chat");
    let seen: Value = serde_json::from_str(seen.trim()).expect("JSON of the client");

    let text = seen["text"].as_str().expect("text");
    assert!(text.contains("Paris"), "no sensible answer: {text:?}");
    let completion = seen["completion_tokens"].as_i64().expect("usage");
    let trace = seen["trace_id"].as_str().expect("trace id");

    let tokens = format!("SELECT coalesce(sum(count), 0) FROM tokens WHERE trace_id = '{trace}'");
    up.until_at_least(&tokens, completion).await;
    assert_eq!(up.numbers(&tokens).await, [completion]);

    let calls = format!(
        "SELECT measured_at, ttft_s, output_tokens, input_tokens, tenant, span_id, floor(extract(epoch FROM time) * 1000) AS ms \
         FROM requests WHERE trace_id = '{trace}' ORDER BY measured_at"
    );
    let count = format!("SELECT count(*) FROM requests WHERE trace_id = '{trace}'");
    up.until_at_least(&count, 2).await;
    let calls = up.sql(&calls).await.rows;
    let client_ttft = seen["ttft_s"].as_f64().expect("TTFT of the client");
    for call in &calls {
        let ttft = call[1].as_f64().expect("TTFT in SQL");
        assert!(
            ttft > 0.0 && ttft <= client_ttft,
            "TTFT at {}: {ttft} s, the client measured {client_ttft} s",
            call[0]
        );
        assert_eq!(call[2].as_i64(), Some(completion), "output tokens at {}", call[0]);
        assert_eq!(call[3], seen["prompt_tokens"], "input tokens at {}", call[0]);
        assert_eq!(call[4].as_str(), Some("acme"), "tenant at {}", call[0]);
    }
    assert_eq!([calls[0][0].as_str(), calls[1][0].as_str()], [Some("gateway"), Some("server")]);

    let server = &calls[1];
    let page = format!(
        "{}/request/{trace}/{}?t={}",
        up.http(),
        server[5].as_str().expect("span id"),
        crate::world::number(&server[6])
    );
    let answer = up.client().get(&page).send().await.expect("page");
    assert!(answer.status().is_success(), "{page}: {}", answer.status());
    let html = answer.text().await.expect("html");
    assert!(html.contains(trace), "the page is about another request");
    assert!(html.contains(&format!("{completion}")), "the page does not say its {completion} tokens");
}
