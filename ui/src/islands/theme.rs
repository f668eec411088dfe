//! Light, dark, or as the system has it.

use leptos::prelude::*;

/// Three buttons in a form that sets a cookie. With scripts the colours change in place.
#[island]
pub fn ThemeSwitch(
    /// The choice in force: auto, light or dark.
    theme: String,
    /// The page to come back to.
    back: String,
) -> impl IntoView {
    let chosen = RwSignal::new(theme);
    let button = move |name: &'static str, label: &'static str| {
        let choose = move |event: leptos::ev::MouseEvent| {
            event.prevent_default();
            #[cfg(feature = "hydrate")]
            super::browser::wear(name);
            chosen.set(name.to_owned());
        };
        view! {
            <button name="theme" value=name aria-pressed=move || (chosen.get() == name).to_string() on:click=choose>{label}</button>
        }
    };
    view! {
        <form class="themes" method="post" action="/theme" aria-label="Colours">
            <input type="hidden" name="back" value=back/>
            {button("auto", "Auto")}
            {button("light", "Light")}
            {button("dark", "Dark")}
        </form>
    }
}
