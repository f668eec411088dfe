//! Bodies in: OTLP over gRPC and HTTP, bounded before they are read and durable before they are acknowledged.
//!
//! ```text
//! connection ─► identify ─► quota ─► admit (bytes) ─► read ─► inflate ─► tenants ─► check ─► known? ─► journal ─► answer
//! ```
//!
//! Both protocols share everything but framing: `grpc` and `http` take a request apart and hand its body to [`Intake`].

pub mod admit;
mod alerts;
pub mod answer;
pub(crate) mod commit;
pub mod loki;

mod deliver;
mod grpc;
mod http;
mod identify;
mod intake;
mod quota;
mod read;
mod tenants;

pub use identify::Writers;
pub(crate) use intake::digest;
pub use intake::{Intake, Parts, readable};

pub use crate::signal::Encoding;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use service::listen::{Ahead, Bounds, Limits, Pace};

use crate::config::Config;

/// Time to a connection's first request: senders connect when they have something.
const FIRST_REQUEST: Duration = Duration::from_secs(15);
/// Time that open calls get after the stop; what they bring has to be stored after that.
const DRAIN: Duration = Duration::from_secs(10);

/// What senders may hold, both ports together where it is memory.
pub(crate) fn bounds(config: &Config, limits: Limits) -> Bounds {
    let usual = Bounds::from(limits);
    Bounds {
        first_request: FIRST_REQUEST.min(limits.header_timeout),
        // The intake's own limit comes first: its answer says to try again.
        body: Pace { window: limits.body_window.saturating_add(read::READ_TIMEOUT), ..usual.body },
        age: Some(config.connection_age),
        drain: DRAIN,
        ahead: Some(Arc::new(Ahead::new(usize::try_from(config.memory).unwrap_or(usize::MAX)))),
        ..usual
    }
}

/// Routes of OTLP over gRPC and HTTP, of Loki's push API and of Alertmanager's webhook. Both ports serve both: what came decides, not where.
pub fn router(intake: &Intake) -> Router {
    grpc::router(intake)
        .merge(http::router(intake))
        .merge(loki::router(intake))
        .merge(alerts::router(intake))
        .fallback(http::fallback)
}
