//! One file per page: its questions, then its markup.

pub(crate) mod missing;
pub(crate) mod overview;
pub(crate) mod request;
pub(crate) mod requests;
pub(crate) mod sql;
