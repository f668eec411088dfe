//! OpenMetrics text of one family.

use std::fmt::Write;

use super::{Exemplars, Family, FamilyKind, Series};

/// Appends the family's lines, or nothing when none of its series has a value.
pub(super) fn family(text: &mut String, name: &str, family: &Family, exemplars: Exemplars) {
    let mut lines = String::new();
    for (labels, series) in &family.series {
        let value = match series {
            Series::Counter(counter) => Some(counter.get().to_string()),
            Series::Gauge(gauge) => number(gauge.get()),
            Series::Observed(value) => value().and_then(number),
            Series::Histogram(histogram) => {
                histogram.render(&mut lines, name, &pairs(labels), exemplars);
                continue;
            }
        };
        let Some(value) = value else { continue };
        let suffix = if family.kind == FamilyKind::Counter { "_total" } else { "" };
        // Writing to a String cannot fail.
        let _ = writeln!(lines, "{name}{suffix}{} {value}", label_set(labels));
    }
    if lines.is_empty() {
        return;
    }
    let kind = match family.kind {
        FamilyKind::Counter => "counter",
        FamilyKind::Gauge => "gauge",
        FamilyKind::Histogram => "histogram",
    };
    let _ = writeln!(text, "# TYPE {name} {kind}");
    let _ = writeln!(text, "# HELP {name} {}", escape(&family.help));
    text.push_str(&lines);
}

fn number(value: f64) -> Option<String> {
    value.is_finite().then(|| value.to_string())
}

fn label_set(labels: &[(String, String)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    format!("{{{}}}", pairs(labels))
}

fn pairs(labels: &[(String, String)]) -> String {
    let pairs: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
    pairs.join(",")
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
