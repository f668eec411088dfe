//! The collector: OTLP in, rows in open tables out. Acknowledged means durable; nothing is lost and nothing counted twice.
//!
//! ```text
//! scrape ─┐
//! tail   ─┤
//! neuron ─┴► receive ─► decode ─► journal ─► ack
//!                                    └─► normalize ─► batch ─► flush ─► publish ─► lake
//! ```
//!
//! Invariants:
//! 1. A sender gets its OK only after its body is in the journal and synced.
//! 2. What is in the journal can be turned into rows: bodies are proven sound before they get there.
//! 3. A row belongs to one journal frame; a file holds one table's rows of a run of frames, and is committed once.
//! 4. The journal is cut where all tables are committed, never before.
//! 5. The journal's side never waits for the rows' side: what the lake does not take stays on disk, up to a budget.
//! 6. Memory for bodies is taken before they are read, and every queue is bounded.
//! 7. Prompts, completions and credentials are dropped before any table.

pub mod batch;
pub mod config;
pub mod decode;
pub mod docs;
pub mod journal;
pub mod neuron;
pub mod normalize;
pub mod receive;
pub mod scrape;
pub mod signal;
pub mod tail;

mod commit;
mod counters;
mod encode;
mod feed;
mod flush;
mod labels;
mod land;
mod pipeline;
mod progress;
mod publish;
mod sample;
mod service_of;

#[cfg(test)]
mod simulation;

pub use config::Config;
pub use service_of::{Built, build};
