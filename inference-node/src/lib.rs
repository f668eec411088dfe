//! A node of the fleet: serves tokens over OpenAI's API and says what each of them cost.
//!
//! ```text
//! serve -> admit -> queue -> schedule -> engine -> stream -> record
//! ```

pub mod engine;
pub mod schedule;
