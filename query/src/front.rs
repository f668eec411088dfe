//! Where questions come in.

pub(crate) mod http;
