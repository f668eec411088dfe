//! Which fields of a URL say which stretch of time a page shows: known to the pages and to the islands.

/// A link to another stretch leaves them behind.
pub(crate) const TIMES: [&str; 6] = ["range", "from", "to", "time", "time.window", "live"];
