//! Keys, the palette, copying and zooming by drag: what only scripts can do for a whole page.

use leptos::prelude::*;

/// Listens for the whole page, also to panels that were renewed since. Its markup is nothing; what a key does stands in the page's
/// own (`data-key`, `data-dialog`, `data-copy`).
#[island]
pub fn Keys() -> impl IntoView {
    #[cfg(feature = "hydrate")]
    super::browser::keyboard::listen();
    #[cfg(feature = "hydrate")]
    super::browser::brush::listen();
    view! { <span hidden></span> }
}
