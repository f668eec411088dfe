//! The vocabulary of Tokenwatt: names on the wire, tables in the lake, units, prices and power.
//!
//! Everything here is pure: no I/O, no clock, no randomness, and it builds for wasm32. Services meet in this crate and
//! nowhere else: `names` is what travels, `table` is what is stored, `contract` is what a page or a client asks.

pub mod allocation;
pub mod billing;
pub mod contract;
pub mod docs;
pub mod grid;
pub mod histogram;
pub mod inventory;
pub mod list;
pub mod names;
pub mod neuron;
pub mod openai;
pub mod power;
pub mod price;
pub mod prometheus;
pub mod record;
pub mod rufus;
pub mod step;
pub mod table;
pub mod unit;
pub mod whatif;

mod dated;
