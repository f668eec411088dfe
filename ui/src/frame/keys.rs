//! The keyboard map and the palette. Both are plain markup: a key is written beside what it does (`data-key`), scripts only press
//! it; without them the palette is the page `/go`, and the map stands on the settings page.

use leptos::prelude::*;

use super::RAIL;
use crate::ask::Asked;
use crate::urlstate::{Dimension, Scope};

/// Keys beyond those of the rail, and what they do.
const KEYS: [(&str, &str); 17] = [
    ("Ctrl K", "palette: go to a page, a region, a model, a node, a trace"),
    ("/", "first filter of the page"),
    ("t", "choose a stretch of time"),
    ("u", "choose a time zone"),
    ("[  ]", "half a window earlier, later"),
    ("-", "twice as wide"),
    ("drag", "over a chart: only that stretch; a box over a heat map: what is different about its calls"),
    ("z", "back to the stretch before"),
    (".", "live or paused"),
    ("j  k", "next and previous row of a table"),
    ("Enter", "open the row"),
    ("←  →", "along a chart that has the focus; ten at once with Shift"),
    ("e", "on the SQL page: edit the statement"),
    ("h", "on the SQL page: statements that were run or saved in this browser; Alt h while typing one"),
    ("Ctrl Enter", "run the statement"),
    ("Esc Tab", "leave the editor, in which Tab by itself completes a word or moves the line in"),
    ("?", "this map"),
];

/// The keyboard map as a table.
pub(crate) fn map() -> AnyView {
    let pages = RAIL.iter().map(|entry| (entry.key.to_owned(), format!("page {}", entry.name)));
    let others = KEYS.iter().map(|(keys, does)| ((*keys).to_owned(), (*does).to_owned()));
    let rows = pages.chain(others).map(|(keys, does)| {
        let keys: Vec<_> = keys.split_whitespace().map(|key| view! { <kbd>{key.to_owned()}</kbd> }).collect();
        view! { <tr><th scope="row">{keys}</th><td>{does}</td></tr> }
    });
    view! { <table class="keys"><tbody>{rows.collect_view()}</tbody></table> }.into_any()
}

/// Both dialogs, closed.
pub(super) fn dialogs(scope: &Scope, choices: Option<&Asked>) -> AnyView {
    let links: Vec<_> = targets(scope, choices)
        .into_iter()
        .map(|(kind, name, link)| view! { <li><a href=link><span class="note">{kind}</span>{name}</a></li> })
        .collect();
    view! {
        <dialog id="palette" aria-label="Go to">
            <form method="get" action="/go">
                <input type="search" name="q" placeholder="page, region, model, tenant, node, trace id …" aria-label="Go to" autocomplete="off"/>
                <ul>{links}</ul>
                <p class="hint">"Enter opens the first, or searches nodes and traces"</p>
            </form>
        </dialog>
        <dialog id="keys" aria-label="Keyboard">
            <h2>"Keyboard"</h2>
            {map()}
            <form method="dialog"><button>"Close"</button></form>
        </dialog>
    }
    .into_any()
}

/// What can be gone to without asking anybody: kind, name, link.
pub(crate) fn targets(scope: &Scope, choices: Option<&Asked>) -> Vec<(&'static str, String, String)> {
    let mut targets: Vec<_> =
        RAIL.iter().map(|entry| ("page", entry.name.to_owned(), scope.link(entry.path))).collect();
    let Some(Ok(answer)) = choices.map(|asked| &asked.outcome) else { return targets };
    for dimension in [Dimension::Region, Dimension::Model, Dimension::Tenant] {
        let mut names: Vec<&str> = answer.rows().filter_map(|row| row.text(dimension.name())).collect();
        names.sort_unstable();
        names.dedup();
        targets.extend(names.into_iter().map(|name| {
            let link = match dimension {
                Dimension::Region => scope.link(&crate::urlstate::path(&["region", name])),
                Dimension::Tenant => scope.with(dimension, Some(name)).link("/requests"),
                _ => scope.with(dimension, Some(name)).link("/latency"),
            };
            (dimension.name(), name.to_owned(), link)
        }));
    }
    targets
}
