//! Rows gathered from journal frames until a buffer closes.

pub mod nodes;
pub mod rows;
pub mod tables;

mod gather;
mod runs;

pub use gather::{Frame, Gather, Limits};
