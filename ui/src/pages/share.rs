//! Links that show others one page: how they are made, and what they say when they have ended.

use leptos::prelude::*;
use service::Error;

use crate::frame::{self, Place, Sheet};
use crate::server::{App, Visit};
use crate::urlstate::{Scope, rfc3339};

/// Lifetimes to choose from: seconds, value, words.
const LIFETIMES: [(u64, &str, &str); 4] =
    [(3_600, "1h", "an hour"), (86_400, "1d", "a day"), (604_800, "7d", "a week"), (2_592_000, "30d", "30 days")];

/// An instant to the minute, in words.
pub(crate) fn until(until_s: i64) -> String {
    let text = rfc3339(until_s.saturating_mul(1_000_000));
    format!("{} UTC", text.get(..16).unwrap_or(&text).replace('T', " "))
}

/// The dialog and the form of the page without scripts: what is shared, for how long.
pub(crate) fn fields(app: &App, page: &str) -> AnyView {
    let most_s = app.access.share_lifetime().as_secs();
    let choices: Vec<_> = LIFETIMES
        .iter()
        .filter(|(seconds, ..)| *seconds <= most_s)
        .map(|(seconds, value, words)| {
            let chosen = (*seconds == 86_400).then_some("");
            view! { <label><input type="radio" name="for" value=*value checked=chosen required=""/>{*words}</label> }
        })
        .collect();
    view! {
        <form class="sharing" method="post" action="/share">
            <p>"Whoever has the link sees this one page, of the times that it shows now, read-only, without signing in."</p>
            <fieldset><legend>"It ends after"</legend>{choices}</fieldset>
            <p class="note">{format!("It shows what {} may see, and ends at once when that access ends or changes.", app.name())}</p>
            <input type="hidden" name="page" value=page.to_owned()/>
            <p class="links"><button class="main">"Make the link"</button></p>
        </form>
    }
    .into_any()
}

/// The form as a page of its own.
pub(crate) fn form(app: &App, visit: &Visit, page: &str) -> String {
    let body = || {
        match app.can_share() {
        true => view! { <div class="card"><p><code>{page.to_owned()}</code></p>{fields(app, page)}</div> }.into_any(),
        false => view! {
            <div class="card"><p>"No links are made here: the address of a page is its link, for everybody who may open it."</p>
            <p class="links"><a href=page.to_owned()>"Back to the page"</a></p></div>
        }
        .into_any(),
    }
    };
    sheet(app, visit, "Share a page", body)
}

/// A link that was made.
pub(crate) fn made(app: &App, visit: &Visit, url: &str, until_s: i64, page: &str) -> String {
    sheet(app, visit, "The link is made", || {
        view! {
            <div class="card">
                <p>"It shows this one page to whoever has it, until "<strong>{until(until_s)}</strong>"."</p>
                <ul class="made"><li>
                    <pre id="link">{url.to_owned()}</pre>
                    <button type="button" class="copy" data-copy="">"Copy the link"</button>
                </li></ul>
                <p class="links"><a href=url.to_owned()>"Open it"</a><a href=page.to_owned()>"Back to the page"</a></p>
            </div>
        }
        .into_any()
    })
}

/// Why no link was made.
pub(crate) fn refused(app: &App, visit: &Visit, error: &Error) -> String {
    sheet(app, visit, "No link was made", || told(error))
}

/// A link that shows nothing any more.
pub(crate) fn ended(app: &App, visit: &Visit, error: &Error) -> String {
    frame::render_alone(app, visit, "Nothing to see here", || {
        view! { <h1>"Nothing to see here"</h1>{told(error)}<p class="links"><a href="/login">"Sign in"</a></p> }
            .into_any()
    })
}

fn told(error: &Error) -> AnyView {
    let hint = error.hint().map(|hint| view! { <p class="hint">{sentence(hint)}</p> });
    view! { <div class="card error" role="alert"><p>{sentence(error.message())}</p>{hint}</div> }.into_any()
}

/// What an error says, as a sentence.
pub(crate) fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

fn sheet(app: &App, visit: &Visit, title: &str, body: impl FnOnce() -> AnyView) -> String {
    let title = title.to_owned();
    frame::render(app, visit, || Sheet { body: body(), ..Sheet::new(title, Place::Elsewhere, Scope::default()) })
}
