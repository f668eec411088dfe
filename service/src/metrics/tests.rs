use super::*;

/// The text names each family once, before its samples, and ends with `# EOF`.
#[test]
fn text_is_openmetrics() {
    let registry = Registry::new();
    let region = |name: &str| [("region", name.to_owned())];
    registry.counter("tokenwatt_rows_total", "Rows written.", &region("us-east-1")).add(7);
    registry.counter("tokenwatt_rows", "Rows written.", &region("eu \"west\"\n1")).inc();
    registry.gauge("tokenwatt_lag_seconds", "Age of the newest row.", &[]).set(1.5);
    let expected = "\
# TYPE tokenwatt_lag_seconds gauge
# HELP tokenwatt_lag_seconds Age of the newest row.
tokenwatt_lag_seconds 1.5
# TYPE tokenwatt_rows counter
# HELP tokenwatt_rows Rows written.
tokenwatt_rows_total{region=\"eu \\\"west\\\"\\n1\"} 1
tokenwatt_rows_total{region=\"us-east-1\"} 7
# EOF
";
    assert_eq!(registry.render(), expected);
}

/// A gauge nobody has set is absent; asking for the same labels gives the same counter.
#[test]
fn unset_is_absent_and_same_labels_are_one_series() {
    let registry = Registry::new();
    let gauge = registry.gauge("tokenwatt_depth", "Depth.", &[]);
    assert_eq!(registry.render(), "# EOF\n");
    gauge.add(2.0);
    gauge.add(-0.5);
    assert!(registry.render().contains("tokenwatt_depth 1.5\n"));

    let labels = [("a", "1".to_owned()), ("b", "2".to_owned())];
    let swapped = [("b", "2".to_owned()), ("a", "1".to_owned())];
    registry.counter("tokenwatt_x_total", "X.", &labels).inc();
    registry.counter("tokenwatt_x_total", "X.", &swapped).inc();
    assert_eq!(registry.counter("tokenwatt_x_total", "X.", &labels).get(), 2);
}

/// Past the limit of series a family folds, and nothing is lost from its sum.
#[test]
fn too_many_series_fold() {
    let registry = Registry::new();
    for n in 0..SERIES_MAX + 5 {
        registry.counter("tokenwatt_x_total", "X.", &[("key", n.to_string())]).inc();
    }
    assert!(registry.render().contains("tokenwatt_x_total{key=\"__other__\"} 5\n"));
}

/// A queue's depth follows the queue and leaves with its last sender.
#[tokio::test]
async fn queue_depth_is_shown() {
    let registry = Registry::new();
    let (sender, _receiver) = crate::channel::bounded("collector.flush", 4);
    registry.queue(&sender);
    sender.send(1).await.unwrap();
    let text = registry.render();
    assert!(text.contains("tokenwatt_queue_depth{queue=\"collector.flush\"} 1\n"), "{text}");
    assert!(text.contains("tokenwatt_queue_capacity{queue=\"collector.flush\"} 4\n"), "{text}");
    drop(sender);
    assert_eq!(registry.render(), "# EOF\n");
}

/// A histogram of numbers sums what it counted, not nanoseconds.
#[test]
fn histograms_of_tokens_sum_tokens() {
    let registry = Registry::new();
    let histogram = registry.histogram_of_tokens("tokenwatt_x_tokens", "Tokens.", &[]);
    [1, 2, 3, 2_000_000].into_iter().for_each(|count| histogram.observe_count(count));
    let text = registry.render();
    for line in [
        "tokenwatt_x_tokens_bucket{le=\"2.0\"} 2",
        "tokenwatt_x_tokens_bucket{le=\"1000000.0\"} 3",
        "tokenwatt_x_tokens_count 4",
        "tokenwatt_x_tokens_sum 2000006",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line} is not in {text}");
    }
}

/// A histogram's buckets add up to its count, and a bound belongs to its bucket.
#[test]
fn histograms_have_cumulative_buckets() {
    let registry = Registry::new();
    let labels = [("table", "tokens".to_owned())];
    let histogram = registry.histogram("tokenwatt_x_seconds", "Time.", &labels);
    for millis in [1, 1_000, 1_001, 90_000] {
        histogram.observe(std::time::Duration::from_millis(millis));
    }
    assert_eq!(
        registry.histogram("tokenwatt_x_seconds", "Time.", &labels).count(),
        4,
        "the same labels, the same series"
    );
    let text = registry.render();
    for line in [
        "# TYPE tokenwatt_x_seconds histogram",
        "tokenwatt_x_seconds_bucket{table=\"tokens\",le=\"0.001\"} 1",
        "tokenwatt_x_seconds_bucket{table=\"tokens\",le=\"1.0\"} 2",
        "tokenwatt_x_seconds_bucket{table=\"tokens\",le=\"2.5\"} 3",
        "tokenwatt_x_seconds_bucket{table=\"tokens\",le=\"+Inf\"} 4",
        "tokenwatt_x_seconds_count{table=\"tokens\"} 4",
        "tokenwatt_x_seconds_sum{table=\"tokens\"} 92.002",
    ] {
        assert!(text.contains(&format!("{line}\n")), "{line} not in\n{text}");
    }
}

/// The last trace of a bucket stands behind its count for who asks for OpenMetrics; a value that is not traced leaves it there.
#[test]
fn buckets_have_exemplars() {
    let registry = Registry::new();
    let histogram = registry.histogram("tokenwatt_x_seconds", "Time.", &[]);
    histogram.observe_traced(std::time::Duration::from_millis(30), 7);
    histogram.observe_traced(std::time::Duration::from_millis(40), 0xAB);
    histogram.observe(std::time::Duration::from_millis(45));
    let asked = |accept: &str| Exemplars::asked(&HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]));
    let text = registry.render_open(asked("application/openmetrics-text;version=1.0.0,text/plain;q=0.5"));
    let bucket = "tokenwatt_x_seconds_bucket{le=\"0.05\"} 3 # {trace_id=\"000000000000000000000000000000ab\"} 0.04\n";
    assert!(text.contains(bucket), "{text}");
    assert_eq!(text.matches(" # {").count(), 1, "{text}");
    for text in [registry.render(), registry.render_open(asked("*/*"))] {
        assert!(text.contains("le=\"0.05\"} 3\n") && !text.contains(" # {"), "{text}");
    }
}
