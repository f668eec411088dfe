//! The dashboard: pages of HTML with the numbers in them, and islands that answer the pointer.
//!
//! ```text
//! urlstate ─► ask (SQL, a deadline each) ─► pages ─► frame ─► HTML      feature `ssr`, the server
//!                                  islands ─► WebAssembly               feature `hydrate`, the browser
//! ```
//!
//! 1. Every page is complete without scripts: filters are forms, ranges are links, charts are SVG.
//! 2. What a page shows is in its URL, and nowhere else (the theme, a cookie, apart).
//! 3. A panel that fails shows why; its neighbours stay.
//! 4. Every number is the answer to one SQL statement, which the page links to.
//! 5. The markup of an island is the same on both sides, and an island holds no data of its own.
//! 6. A page is asked with the rights of whoever looks at it, or of whoever shared it ([`Access`]).

pub mod islands;
mod times;

#[cfg(feature = "ssr")]
mod ask;
#[cfg(feature = "ssr")]
mod assets;
#[cfg(feature = "ssr")]
mod frame;
#[cfg(feature = "ssr")]
mod pages;
#[cfg(feature = "ssr")]
mod panel;
#[cfg(feature = "ssr")]
mod server;
#[cfg(feature = "ssr")]
mod sql;
#[cfg(feature = "ssr")]
mod statement;
#[cfg(feature = "ssr")]
pub mod urlstate;
#[cfg(feature = "ssr")]
mod zone;

#[cfg(feature = "ssr")]
pub use server::{Access, Answers, Options, guarded, open_to_sessions, router};

/// Starts the islands of a page. The bundle's entry script calls it once, before it hands each
/// island its element.
#[cfg(feature = "hydrate")]
#[wasm_bindgen::prelude::wasm_bindgen]
pub fn hydrate() {
    leptos::mount::hydrate_islands();
}
