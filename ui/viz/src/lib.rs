//! Charts as plain text: scale → tick → reduce → path → SVG.
//!
//! The server draws a chart into the page with this crate and an island answers the pointer with
//! the same numbers, so a chart is complete before any script runs. Everything here is a pure
//! function of its arguments: no clock, no I/O, no floats that could be NaN in the output.
//!
//! Charts stretch to the width of their panel. Lines are drawn in a box of [`WIDTH`] units that is
//! stretched without scaling its strokes; text keeps its size because it is placed by percent.

pub mod bar;
pub mod chart;
pub mod colour;
pub mod format;
pub mod heat;
pub mod hover;
mod markup;
pub mod path;
pub mod reduce;
pub mod scale;
pub mod stack;
pub mod tick;
pub mod timeline;
pub mod zone;

pub use markup::escape;

/// Units across a chart; a path keeps at most two points per unit.
pub const WIDTH: f64 = 1000.0;
