//! Bodies in: OTLP over gRPC and HTTP, bounded before they are read and durable before they are acknowledged.
//!
//! ```text
//! connection ─► identify ─► quota ─► admit (bytes) ─► read ─► inflate ─► tenants ─► check ─► known? ─► journal ─► answer
//! ```
//!
//! Both protocols share everything but framing: `grpc` and `http` take a request apart and hand its body to [`Intake`].

pub mod admit;
pub mod answer;
pub(crate) mod commit;
pub mod loki;
pub mod serve;

mod deliver;
mod grpc;
mod http;
mod identify;
mod intake;
mod peer;
mod quota;
mod read;
mod tenants;

pub use identify::Writers;
pub(crate) use intake::digest;
pub use intake::{Intake, Parts, readable};

pub use crate::signal::Encoding;

use axum::Router;

/// Routes of OTLP over gRPC and HTTP, and of Loki's push API. Both ports serve both: what came decides, not where.
pub fn router(intake: &Intake) -> Router {
    grpc::router(intake).merge(http::router(intake)).merge(loki::router(intake)).fallback(http::fallback)
}
