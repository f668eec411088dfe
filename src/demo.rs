//! The demo: a simulated fleet of three regions, and applications that ask it questions.
//!
//! ```text
//! load (applications) ─► gateway of the region ─► node ─┐
//!   └──────────────── OTLP ──────────┴── OTLP ──────────┴─► collector of `up`
//! ```
//!
//! Everything speaks the real protocols over loopback. The hardware is simulated from published step times and the
//! texts are made up; all that is measured about them is measured.

pub(crate) mod fleet;
pub(crate) mod load;

mod ask;
mod prompt;
mod trace;
