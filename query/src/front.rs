//! Where questions come in.

pub(crate) mod flight;
pub(crate) mod http;
#[allow(dead_code, reason = "for fronts with connections that hold settings")]
pub(crate) mod session;
