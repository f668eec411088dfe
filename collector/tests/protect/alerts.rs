//! Alertmanager's webhook: who may post, what is no notification, and what the rows say.

use std::time::Duration;

use service::principal::Role;
use service::tls;

use super::{World, bearer, principal};

const PATH: &str = "/api/v1/alerts";

fn notification(alert: &str) -> Vec<u8> {
    format!(
        "{{\"version\":\"4\",\"receiver\":\"tokenwatt\",\"externalURL\":\"http://am:9093\",\"groupKey\":\"x\",\"alerts\":[\
         {{\"status\":\"firing\",\"labels\":{{\"alertname\":\"{alert}\",\"region\":\"eu-west-1\"}},\
         \"annotations\":{{\"summary\":\"token Bearer abcdefghijklmnopqrstuvwxyz012345 of {alert}\"}},\
         \"startsAt\":\"2026-11-30T12:00:00Z\",\"endsAt\":\"0001-01-01T00:00:00Z\",\"generatorURL\":\"\",\
         \"fingerprint\":\"{alert}-print\"}}]}}"
    )
    .into_bytes()
}

/// The rights are those of every other way in: no token 401, a reader 403; and who writes for some tenants may not speak for the
/// fleet. What is no notification is a 400 that says why. What was answered with 200 is a row, once, without credentials.
#[tokio::test(flavor = "multi_thread")]
async fn notifications_become_rows() {
    let (all, all_token) = principal("all", Role::Writer, &["*"]);
    let (acme, acme_token) = principal("acme", Role::Writer, &["acme"]);
    let (reader, reader_token) = principal("reader", Role::Reader, &["*"]);
    let world = World::start(&[all, acme, reader], &tls::Config::default()).await;
    let post = async |headers: &str, body: &[u8]| world.post_to(PATH, "json", headers, body).await;
    assert_eq!(post("", &notification("nobody")).await.0, 401);
    assert_eq!(post(&bearer(&reader_token), &notification("reader")).await.0, 403);
    let (status, answer) = post(&bearer(&acme_token), &notification("acme")).await;
    assert!(status == 403 && answer.contains("writes for some tenants"), "{answer}");
    let all = bearer(&all_token);
    let (status, answer) = post(&all, b"[]").await;
    assert!(status == 400 && answer.contains("prometheus sends its alerts to alertmanager"), "{answer}");
    let version = String::from_utf8(notification("old")).unwrap().replace("\"4\"", "\"3\"");
    assert_eq!(post(&all, version.as_bytes()).await.0, 400);
    let headers = format!("{all}content-encoding: br\r\n");
    assert_eq!(post(&headers, &notification("brotli")).await.0, 400);
    for _ in 0..2 {
        assert_eq!(post(&all, &notification("kept")).await.0, 200);
    }
    let metrics = world.deps.metrics.render();
    for line in [
        "tokenwatt_collector_accepted_items_total{signal=\"alerts\"} 1",
        "tokenwatt_collector_principal_accepted_items_total{principal=\"all\"} 1",
        "tokenwatt_collector_duplicate_requests_total 1",
    ] {
        assert!(metrics.contains(&format!("{line}\n")), "{line} not in\n{metrics}");
    }
    let rows = world.stop().await;
    assert_eq!(rows.matches("\"fingerprint\":\"kept-print\"").count(), 1, "{rows}");
    for part in ["\"name\":\"kept\"", "\"region\":\"eu-west-1\"", "\"starts_at\":\"2026-11-30T12:00:00Z\""] {
        assert!(rows.contains(part), "no {part} in {rows}");
    }
    for part in ["nobody", "reader", "acme", "brotli", "abcdefghijklmnopqrstuvwxyz012345", "\"ends_at\":\"0001"] {
        assert!(!rows.contains(part), "{part} in {rows}");
    }
}

/// Alertmanager gives up after a 429: beyond a quota it is told 503, and comes again.
#[tokio::test(flavor = "multi_thread")]
async fn a_quota_is_told_as_503() {
    let (mut slow, token) = principal("slow", Role::Writer, &["*"]);
    slow.bytes_per_s = Some(1);
    let world = World::start(&[slow], &tls::Config::default()).await;
    assert_eq!(world.post_to(PATH, "json", &bearer(&token), &notification("first")).await.0, 200);
    let (status, answer) = world.post_to(PATH, "json", &bearer(&token), &notification("second")).await;
    assert!(status == 503 && answer.contains("retry-after: "), "{answer}");
    assert_eq!(world.deps.shutdown.walk(Duration::from_secs(20)).await, Vec::<String>::new());
    world.task.await.unwrap().unwrap();
}
