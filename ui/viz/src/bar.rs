//! A bar that is divided: shares of a whole, side by side, for a cell of a table.

use std::fmt::Write;

use crate::format::{self, Unit};
use crate::markup::escape;

/// One part of a bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Part<'a> {
    /// What it is, read out with its share.
    pub name: &'a str,
    /// Share of the bar, 0 to 1.
    pub share: f64,
    /// Class of the part in the style sheet.
    pub style: &'a str,
}

/// Height of a bar, in px.
const HEIGHT: f64 = 10.0;

/// The parts from the left on; what does not fit is cut off, what is no number is left out.
pub fn bar(parts: &[Part<'_>]) -> String {
    let known = || parts.iter().filter(|part| part.share.is_finite() && part.share > 0.0);
    let label: Vec<String> =
        known().map(|part| format!("{} {}", part.name, format::text(Some(part.share), Unit::Ratio))).collect();
    let label = if label.is_empty() { "none".to_owned() } else { escape(&label.join(", ")).into_owned() };
    let mut out = format!(
        r#"<svg class="share" width="100%" height="{HEIGHT}" role="img" aria-label="{label}"><title>{label}</title><rect class="bed" width="100%" height="{HEIGHT}" rx="2"/>"#
    );
    let mut at = 0.0_f64;
    for part in known() {
        let wide = (part.share * 100.0).min(100.0 - at);
        if wide <= 0.0 {
            break;
        }
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            r#"<rect class="piece {}" x="{at:.2}%" width="{wide:.2}%" height="{HEIGHT}" rx="2"/>"#,
            part.style
        );
        at += wide;
    }
    out.push_str("</svg>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_and_never_leave_the_bar() {
        let part = |name, share| Part { name, share, style: "queue" };
        let svg = bar(&[part("a<", 0.25), part("b", f64::NAN), part("c", 0.5), part("d", 9.0)]);
        assert!(svg.contains(r#"x="0.00%" width="25.00%""#), "{svg}");
        assert!(svg.contains(r#"x="25.00%" width="50.00%""#), "{svg}");
        assert!(svg.contains(r#"x="75.00%" width="25.00%""#), "{svg}");
        assert!(bar(&[]).contains(r#"aria-label="none""#));
        assert!(svg.contains("a&lt; 25.0%") && !svg.contains("NaN"), "{svg}");
    }
}
