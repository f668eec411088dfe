//! What a person sees first.

use crate::world::Server;

const REGIONS: [&str; 3] = ["eu-west-1", "us-east-1", "us-west-2"];

/// Every region has calls, tokens, a latency, utilization, energy and a price; the unpriced node stays unknown.
pub(super) async fn shows_three_regions(server: &Server) {
    for region in REGIONS {
        let calls =
            format!("SELECT count(*) FROM calls WHERE region = '{region}' AND ttft_s > 0 AND output_tokens > 0");
        server.until_at_least(&calls, 5).await;
        let devices = format!("SELECT count(*) FROM devices WHERE region = '{region}' AND power_w > 0");
        server.until_at_least(&devices, 1).await;
    }
    let html = page(server, "/").await;
    // Their names are among the filters too: what is looked at is the table.
    let table =
        html.split_once("id=\"regions\"").and_then(|(_, rest)| rest.split("</section>").next()).unwrap_or_default();
    for region in REGIONS {
        assert!(table.contains(&format!("/region/{region}")), "the Overview does not show {region}:\n{table}");
    }
    for path in ["/requests", "/sql"] {
        page(server, path).await;
    }
    // A host type without a price exists, and it has no cost.
    let unpriced = "SELECT count(*) FROM (SELECT DISTINCT host_type FROM devices WHERE host_type IS NOT NULL) d \
                    WHERE NOT EXISTS (SELECT 1 FROM prices p WHERE p.host_type = d.host_type)";
    assert!(server.numbers(unpriced).await[0] >= 1, "every node has a price; unknown is not shown");
    let retrieval = "SELECT count(*) FROM spans s JOIN requests r ON s.trace_id = r.trace_id \
                     WHERE s.name = 'retrieval' AND r.measured_at = 'server'";
    // Other spans than calls are committed every ten seconds.
    server.until_at_least(retrieval, 1).await;
}

async fn page(server: &Server, path: &str) -> String {
    let answer = server.client().get(format!("{}{path}", server.http())).send().await.expect("a page");
    assert!(answer.status().is_success(), "{path}: {}", answer.status());
    answer.text().await.expect("html")
}
