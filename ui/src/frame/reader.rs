//! Who is signed in, what that reader sees, and how it shares a page.

use leptos::prelude::*;
use service::principal::Principal;

use super::Place;
use crate::pages::share;
use crate::server::{App, Visit};
use crate::urlstate::Fields;

/// Tenants or regions named in the frame at most; the rest is counted.
const NAMED: usize = 3;

/// The reader's name, and the way out, on which the browser forgets the statements that it kept for that name.
pub(super) fn signed_in(reader: &Principal) -> AnyView {
    view! {
        <form class="reader" method="post" action="/logout" aria-label="Signed in" data-of=reader.name.clone()>
            <span title=format!("signed in as {}", reader.name)>{reader.name.clone()}</span>
            <button>"Sign out"</button>
        </form>
    }
    .into_any()
}

/// What the figures of a reader are a part of: nothing for one that sees everything.
pub(super) fn bounds(reader: &Principal) -> Option<AnyView> {
    let tenants = (!reader.every_tenant()).then_some(&reader.tenants);
    let regions = (!reader.every_region()).then_some(&reader.regions);
    let parts: Vec<String> = [tenants, regions].into_iter().flatten().map(|names| some(names)).collect();
    (!parts.is_empty()).then(|| {
        let title = "every figure counts only what this reader may see";
        view! { <span class="chip bounds" title=title>{format!("only {}", parts.join(" in "))}</span> }.into_any()
    })
}

fn some(names: &[String]) -> String {
    let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The button that opens the dialog, with the dialog; without scripts it leads to a page with the same form.
pub(super) fn share(app: &App, visit: &Visit, place: Place) -> Option<AnyView> {
    if !app.can_share() || place == Place::Elsewhere {
        return None;
    }
    let mut fields = Fields::default();
    fields.set("page", visit.here.clone());
    Some(
        view! {
            <a class="live" href=fields.link("/share") data-dialog="share">"Share"</a>
            <dialog id="share" aria-label="Share this page">
                <h2>"Share this page"</h2>
                {share::fields(app, &visit.here)}
                <form method="dialog"><button>"Close"</button></form>
            </dialog>
        }
        .into_any(),
    )
}
