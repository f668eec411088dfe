//! What every service of Tokenwatt needs and none should write twice.
//!
//! ```text
//! config ─► clock · channel · task · shutdown ─► secret · principal · tls · origin · host ─► listen ─► health · metrics · observe;  rapl
//! ```
//!
//! A service is built with [`Deps`] and never reaches for the wall clock, the environment, a signal or
//! a free-standing task by itself. That keeps services testable with port 0 and a clock of the test's choice.
//!
//! Invariants:
//! 1. Only this crate reads the environment, the wall clock and signals.
//! 2. Every queue has a name and a bound ([`channel::bounded`]).
//! 3. Every task has a name, and its failure is seen by [`health::Health`] ([`task::Tasks`]).
//! 4. Shutdown walks [`shutdown::Stage`]s in order; a stage begins when the one before it has nothing left.

pub mod config;

pub mod channel;
pub mod clock;
pub mod shutdown;
pub mod task;

pub mod secret;
pub mod principal;
pub mod tls;
pub mod origin;
pub mod host;
pub mod uplink;

pub mod rapl;

pub mod health;
pub mod listen;
pub mod hop;
pub mod metrics;
pub mod observe;
pub mod signal;

pub mod error;

mod deps;

pub use deps::Deps;
pub use error::{Error, Kind, Result};
