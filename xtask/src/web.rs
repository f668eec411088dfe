//! `web`: the dashboard's islands as WebAssembly, and the scripts of single pages.
//!
//! ```text
//! cargo build (wasm32) ─► wasm-bindgen, as a library ─┐
//! npm ci ─► esbuild ──────────────────────────────────┴─► names by content ─► brotli ─► manifest
//! ```
//!
//! A bundle is built once for its sources and kept under their fingerprint in `<target>/web`; `current` there names
//! the newest, which is where the server looks. wasm-bindgen comes from the lock file, so that its two halves cannot
//! drift apart; what comes from npm is held by the hashes of another.

#[cfg(feature = "web")]
mod build;
#[cfg(any(feature = "web", test))]
mod glue;
#[cfg(any(feature = "web", test))]
mod key;
#[cfg(feature = "web")]
mod scripts;

#[cfg(feature = "web")]
pub(crate) use build::bundle;
