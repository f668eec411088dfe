//! Statements that the browser keeps: those it ran last, and those somebody gave a name. The server makes the empty frame and is told nothing;
//! the editor's script fills it, so without scripts there is neither button nor list.

use leptos::prelude::*;

/// Opens the list. It keeps its place on the page until the script shows it.
pub(super) fn button() -> AnyView {
    view! { <button type="button" class="kept" data-key="h" aria-haspopup="dialog">"Saved and recent"</button> }
        .into_any()
}

/// The list of one reader, closed and empty.
pub(super) fn dialog(of: &str) -> AnyView {
    let whose = match of {
        "everybody" => "Kept in this browser alone; nothing of it is sent anywhere.".to_owned(),
        name => format!(
            "Kept in this browser alone, for {name}; nothing of it is sent anywhere. Signing out forgets all of them: what shall last is a bookmark, as a statement is in the address of its page."
        ),
    };
    view! {
        <dialog id="kept" aria-label="Saved and recent statements">
            <form class="name" method="dialog">
                <input name="name" maxlength="80" required="" autocomplete="off" placeholder="name of this statement" aria-label="Name of this statement"/>
                <button>"Save"</button>
                <output></output>
            </form>
            <section aria-labelledby="kept-saved"><h2 id="kept-saved">"Saved"</h2><ul class="saved"></ul></section>
            <section aria-labelledby="kept-recent"><h2 id="kept-recent">"Recent"</h2><ul class="recent"></ul></section>
            <p class="hint">{whose}</p>
            <form method="dialog" class="ends"><button>"Close"</button><button type="button" class="forget">"Forget all"</button></form>
        </dialog>
    }
    .into_any()
}
