//! Pages without a rail: before anybody has signed in, and for those who were sent a link.

use leptos::prelude::*;

use super::{Sheet, freshness, notices};
use crate::islands::{Cursor, Keys, ThemeSwitch};
use crate::pages::share::until;
use crate::server::{Shared, Visit};
use crate::zone;

/// A page of one part in the middle.
pub(super) fn plain(visit: &Visit, body: AnyView) -> AnyView {
    view! {
        <body class="alone">
            <main id="main">
                <p class="brand">"tokenwatt"</p>
                {body}
                <ThemeSwitch theme=visit.theme.name().to_owned() back=visit.here.clone()/>
            </main>
        </body>
    }
    .into_any()
}

/// A page that was shared: its numbers, who shared them, and until when. What leads elsewhere asks for a sign-in.
pub(super) fn shared(visit: &Visit, sheet: Sheet, shared: &Shared) -> AnyView {
    let notices = notices(&sheet);
    let read = format!(". Read from the tables at {}.", zone::clock(visit.now_us));
    view! {
        <body class="shared">
            <a class="skip" href="#main">"Skip to the numbers"</a>
            <div class="page">
                <p class="banner" role="note">
                    <span class="brand">"tokenwatt"</span>
                    <span>"Shared by "<b>{shared.by.clone()}</b>", read-only, until "<b>{until(shared.until_s)}</b>{read}</span>
                    <a href=visit.here.clone()>"Sign in to go on from here"</a>
                </p>
                <header class="top">
                    <div class="name"><h1>{sheet.title.clone()}</h1></div>
                    <div id="freshness" class="fresh">{sheet.freshness.map(|fresh| freshness(Some(fresh)))}</div>
                </header>
                <div id="notices">{notices}</div>
                <main id="main">{sheet.body}</main>
                <footer class="foot">{format!("{} · all times {}", visit.here, zone::name())}</footer>
            </div>
            <Cursor/>
            <Keys/>
        </body>
    }
    .into_any()
}
