//! Renews the numbers of a page without moving it.

use leptos::prelude::*;

/// A switch between a page that follows the present and one that stands still. Without scripts it
/// is a link to the other of the two.
#[island]
pub fn Live(
    /// Whether the page follows the present.
    live: bool,
    /// Seconds between renewals.
    every_s: u32,
    /// Link to the page that follows.
    resume: String,
    /// Link to the page that stands still.
    pause: String,
) -> impl IntoView {
    let on = RwSignal::new(live);
    #[cfg(feature = "hydrate")]
    super::browser::renew(on, every_s);
    let _ = every_s;
    let links = StoredValue::new((resume, pause));
    // The link leads to the other state, the address bar shows the present one.
    let href = move || links.with_value(|(resume, pause)| if on.get() { pause.clone() } else { resume.clone() });
    let switch = move |event: leptos::ev::MouseEvent| {
        event.prevent_default();
        on.update(|on| *on = !*on);
        #[cfg(feature = "hydrate")]
        links.with_value(|(resume, pause)| {
            super::browser::show_address(if on.get_untracked() { resume } else { pause })
        });
    };
    view! {
        <a class="live" class:on=move || on.get() href=href on:click=switch role="switch" aria-checked=move || on.get().to_string()>
            <span class="dot"></span>
            {move || if on.get() { "Live" } else { "Paused" }}
        </a>
    }
}
