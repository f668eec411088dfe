//! `web`: the dashboard's islands as WebAssembly.
//!
//! ```text
//! cargo build (wasm32) ─► wasm-bindgen, as a library ─► names by content ─► brotli ─► manifest
//! ```
//!
//! A bundle is built once for its sources and kept under their fingerprint in `<target>/web`; `current` there names
//! the newest, which is where the server looks. wasm-bindgen comes from the lock file, so that its two halves cannot
//! drift apart, and nothing is downloaded.

#[cfg(feature = "web")]
mod build;
#[cfg(any(feature = "web", test))]
mod glue;
#[cfg(any(feature = "web", test))]
mod key;

#[cfg(feature = "web")]
pub(crate) use build::bundle;
