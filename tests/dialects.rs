//! What other emitters send: OpenTelemetry's own SDK over both transports, every value in its column and nothing lost; and a
//! call that three of them report, counted once.

use serde_json::{Value, json};

use crate::world::{Server, World, client, unix_ns};

#[test]
fn spans_metrics_and_logs_of_the_sdk_over_grpc_come_back_whole() {
    let world = World::new();
    let server = world.up();
    client("sdk.py", &["grpc", server.otlp_grpc(), server.http()], &[]);
}

#[test]
fn spans_metrics_and_logs_of_the_sdk_over_http_come_back_whole() {
    let world = World::new();
    let server = world.up();
    client("sdk.py", &["http", server.otlp_http(), server.http()], &[]);
}

/// A LangChain application, the LiteLLM proxy it asks and the vLLM behind that each report the call in their own words: three
/// rows of `requests`, one of `calls`, which is the engine's, and its tokens are summed once.
#[tokio::test]
async fn a_call_that_client_gateway_and_engine_report_counts_once() {
    let world = World::new();
    let server = world.up();
    let start_ns = unix_ns() - 5_000_000_000;
    export(&server, "shop", &[span(1, start_ns, 2_000, "ChatOpenAI", 1, json!({
        "openinference.span.kind": "LLM", "llm.model_name": "llama", "llm.token_count.prompt": 9, "llm.token_count.completion": 5,
    }))])
    .await;
    export(&server, "litellm", &[span(2, start_ns + 50_000_000, 1_900, "litellm_request", 1, json!({
        "gen_ai.request.model": "llama", "gen_ai.operation.name": "chat",
        "gen_ai.usage.prompt_tokens": 9, "gen_ai.usage.input_tokens": 9, "gen_ai.usage.completion_tokens": 5, "gen_ai.usage.output_tokens": 5,
    }))])
    .await;
    export(&server, "vllm", &[span(3, start_ns + 100_000_000, 1_800, "llm_request", 2, json!({
        "gen_ai.usage.prompt_tokens": 9, "gen_ai.usage.completion_tokens": 5,
        "gen_ai.latency.e2e": 1.8, "gen_ai.latency.time_to_first_token": 0.4, "gen_ai.latency.time_in_model_prefill": 0.3,
    }))])
    .await;
    server.until_at_least("SELECT count(*) FROM requests", 3).await;
    let sums = "SELECT count(*), sum(input_tokens), sum(output_tokens) FROM";
    assert_eq!(server.numbers(&format!("{sums} requests")).await, [3, 27, 15]);
    assert_eq!(server.numbers(&format!("{sums} calls")).await, [1, 9, 5]);
    let counted = server.row("SELECT measured_at, engine, service, ttft_definition FROM calls").await;
    assert_eq!(counted, [json!("server"), json!("vllm"), json!("vllm"), json!("first_output_in_frontend")]);
}

/// One span of the trace that the reporters share, each the parent of the next.
fn span(place: u8, start_ns: u64, ms: u64, name: &str, kind: u8, attributes: Value) -> Value {
    let value = |value: &Value| match value {
        Value::Number(number) if number.is_i64() => json!({"intValue": number}),
        Value::Number(number) => json!({"doubleValue": number}),
        value => json!({"stringValue": value}),
    };
    let attributes: Vec<Value> = attributes
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, given)| json!({"key": key, "value": value(given)}))
        .collect();
    json!({
        "traceId": "5a".repeat(16), "spanId": format!("{place:016x}"),
        "parentSpanId": if place > 1 { format!("{:016x}", place - 1) } else { String::new() },
        "name": name, "kind": kind,
        "startTimeUnixNano": start_ns.to_string(), "endTimeUnixNano": (start_ns + ms * 1_000_000).to_string(),
        "attributes": attributes,
    })
}

async fn export(server: &Server, service: &str, spans: &[Value]) {
    let named = json!({"attributes": [{"key": "service.name", "value": {"stringValue": service}}]});
    let body = json!({"resourceSpans": [{"resource": named, "scopeSpans": [{"spans": spans}]}]});
    let url = format!("{}/v1/traces", server.otlp_http());
    let answer = server.client().post(url).json(&body).send().await.expect("send");
    assert!(answer.status().is_success(), "{}", answer.status());
}
