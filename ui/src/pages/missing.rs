//! The page for paths that lead nowhere.

use leptos::prelude::*;

use crate::frame::{self, Place, Sheet};
use crate::server::{App, Visit};
use crate::urlstate::Scope;

pub(crate) fn page(app: &App, visit: &Visit) -> String {
    frame::render(app, visit, || {
        let body = view! {
            <div class="card">
                <p>"There is no page at this address. A request is found by its 32-digit trace id and 16-digit span id: "</p>
                <p><code>"/request/<trace id>/<span id>"</code></p>
                <p class="links"><a href="/">"Overview"</a><a href="/requests">"Requests"</a><a href="/go">"Find by name or id"</a></p>
            </div>
        }
        .into_any();
        Sheet { body, ..Sheet::new("Not found", Place::Elsewhere, Scope::default()) }
    })
}
