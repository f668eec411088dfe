//! From the bytes of a body to values, without objects in between.
//!
//! `inflate` undoes compression within a cap, `json` turns OTLP/JSON into the protobuf encoding, so that one walker serves
//! both; `check` proves a body sound before it is journalled; `canonical` mends what senders spell oddly; `view` reads one message in place; `print` writes a message
//! as OTLP JSON. `notification` reads what Alertmanager posts. `schema` is the one description of OTLP that `check`, `json` and `print` follow.

pub mod alike;
pub mod canonical;
pub mod check;
pub mod inflate;
pub mod json;
pub mod notification;
pub mod print;
pub mod schema;
pub mod view;
pub mod wire;

#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
