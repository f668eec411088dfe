//! Where questions come in.

pub(crate) mod flight;
pub(crate) mod http;
pub(crate) mod postgres;
pub(crate) mod session;
