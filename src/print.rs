//! What the command line says: answers to standard output, failures to standard error.
//!
//! A reader that closes its end (`| head`) has seen enough; that is no failure.

use std::io::Write;

use crate::failure::Failure;

/// One line of an answer.
pub(crate) fn line(text: impl AsRef<str>) {
    bytes(text.as_ref().as_bytes());
    bytes(b"\n");
}

/// Raw bytes of an answer.
pub(crate) fn bytes(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

/// Why the process ends, and what to do about it.
pub(crate) fn failure(failure: &Failure) {
    let mut text = format!("error: {}\n", service::error::chain(&failure.error));
    if let Some(hint) = failure.error.hint() {
        text.push_str(&format!("  hint: {hint}\n"));
    }
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Lines of `name  value`, values below each other. The first word of a line is its name, the second its value.
pub(crate) fn pairs(pairs: &[(String, String)]) {
    let width = pairs.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, value) in pairs {
        line(format!("{name:width$}  {value}"));
    }
}

/// A word about work that is under way, to standard error.
pub(crate) fn note(text: impl AsRef<str>) {
    let mut error = std::io::stderr().lock();
    let _ = error.write_all(text.as_ref().as_bytes()).and_then(|()| error.write_all(b"\n"));
}
