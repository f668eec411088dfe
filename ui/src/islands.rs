//! What a page gains when WebAssembly runs: it renews itself, answers the pointer and the keys and changes its
//! colours in place. Each island is useful markup before that: a link, a form, an empty note.

pub mod cursor;
pub mod keys;
pub mod live;
pub mod theme;

#[cfg(feature = "hydrate")]
mod browser;

pub use cursor::Cursor;
pub use keys::Keys;
pub use live::Live;
pub use theme::ThemeSwitch;

/// The names under which the bundle must export the islands, read off their markup.
#[cfg(feature = "ssr")]
pub(crate) fn names() -> Vec<String> {
    use leptos::prelude::*;

    let html = Owner::new().with(|| {
        let view = view! {
            <Cursor/>
            <Keys/>
            <Live live=true every_s=5 resume=String::new() pause=String::new()/>
            <ThemeSwitch theme=String::new() back=String::new()/>
        };
        view.to_html()
    });
    let parts = html.split("data-component=\"").skip(1);
    parts.filter_map(|part| part.split('"').next()).map(str::to_owned).collect()
}
