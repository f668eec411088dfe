//! Where a reader shows a token. A plain form: it needs no scripts.

use std::time::Duration;

use leptos::prelude::*;

use crate::frame;
use crate::server::{App, Visit};

/// What the form needs to know.
pub(crate) struct Form {
    /// The page to go to afterwards.
    pub(crate) next: String,
    /// What happened before.
    pub(crate) notice: Option<Notice>,
    /// Whether what is typed travels so that others can read it.
    pub(crate) is_readable: bool,
}

/// What happened before the form was shown.
pub(crate) struct Notice {
    text: String,
    hint: Option<String>,
    is_refusal: bool,
}

impl Notice {
    /// Something to know.
    pub(crate) fn told(text: &str) -> Self {
        Self { text: text.to_owned(), hint: None, is_refusal: false }
    }

    /// Why the token was not taken.
    pub(crate) fn refused(text: String, hint: Option<&str>) -> Self {
        Self { text, hint: hint.map(str::to_owned), is_refusal: true }
    }

    fn view(&self) -> AnyView {
        let hint = self.hint.clone().map(|hint| view! { <span class="hint">{hint}</span> });
        let (class, role) = if self.is_refusal { ("said refused", "alert") } else { ("said", "status") };
        view! { <p id="said" class=class role=role>{self.text.clone()}{hint}</p> }.into_any()
    }
}

/// The login; sessions last `lifetime`.
pub(crate) fn page(app: &App, visit: &Visit, form: &Form, lifetime: Duration) -> String {
    frame::render_alone(app, visit, "Sign in", || {
        let is_wrong = form.notice.as_ref().is_some_and(|notice| notice.is_refusal);
        let invalid = is_wrong.then_some("true");
        let described = form.notice.is_some().then_some("said");
        let notice = form.notice.as_ref().map(Notice::view);
        let readable = form.is_readable.then(|| {
            view! { <p class="said refused" role="note">"This page came without TLS: others on the way can read what you type."</p> }
        });
        view! {
            <form class="card entry" method="post" action="/login">
                <h1>"Sign in"</h1>
                {notice}
                {readable}
                <label for="token">"Token"</label>
                <input id="token" type="password" name="token" required="" autofocus="" maxlength="512"
                    autocomplete="current-password" autocapitalize="off" spellcheck="false" aria-invalid=invalid aria-describedby=described/>
                <input type="hidden" name="next" value=form.next.clone()/>
                <button class="main">"Sign in"</button>
                <p class="note">{format!(
                    "The pages show what the token's reader may see, until you sign out, for {} at most.",
                    words(lifetime)
                )}</p>
                <details>
                    <summary>"I have no token"</summary>
                    <p class="note">
                        "Whoever runs this server makes one with "<code>"tokenwatt token"</code>
                        ", puts its hash into the settings as a "<code>"[[principal]]"</code>" with "<code>"role = \"reader\""</code>
                        ", and gives it to you. It is stored nowhere, so nobody can look it up."
                    </p>
                </details>
            </form>
        }
        .into_any()
    })
}

/// A lifetime in words, to the minute.
fn words(lifetime: Duration) -> String {
    let minutes = lifetime.as_secs() / 60;
    let (count, unit) = match minutes {
        days if days.is_multiple_of(1_440) => (days / 1_440, "day"),
        hours if hours.is_multiple_of(60) => (hours / 60, "hour"),
        minutes => (minutes, "minute"),
    };
    if count == 1 { format!("1 {unit}") } else { format!("{count} {unit}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_is_said_in_words() {
        for (seconds, said) in
            [(60, "1 minute"), (5_400, "90 minutes"), (43_200, "12 hours"), (86_400, "1 day"), (604_800, "7 days")]
        {
            assert_eq!(words(Duration::from_secs(seconds)), said);
        }
    }
}
