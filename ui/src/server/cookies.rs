//! Cookies that a browser brings along.

use axum::http::{HeaderMap, header};

/// The value of a cookie. Of several with one name the first counts, which browsers send for the closest path.
pub(crate) fn find<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';'));
    pairs.find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}
