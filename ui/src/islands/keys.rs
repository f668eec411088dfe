//! Keys, the palette, copying, zooming by drag, and what a page was sent without: what only scripts can do for a whole page.

use leptos::prelude::*;

/// Listens for the whole page, also to panels that were renewed since. Its markup is nothing; what a key does stands in the page's
/// own (`data-key`, `data-dialog`, `data-copy`).
#[island]
pub fn Keys() -> impl IntoView {
    #[cfg(feature = "hydrate")]
    super::browser::keyboard::listen();
    #[cfg(feature = "hydrate")]
    super::browser::brush::listen();
    #[cfg(feature = "hydrate")]
    super::browser::complete();
    view! { <span hidden></span> }
}
