//! Text that cannot break out of the markup around it.

use std::borrow::Cow;

/// Escapes text for use between tags and inside quoted attributes.
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn nothing_can_open_a_tag_or_close_an_attribute() {
        assert_eq!(escape("<script>\"'&"), "&lt;script&gt;&quot;&#39;&amp;");
        assert_eq!(escape("eu-west-1"), "eu-west-1");
    }
}
