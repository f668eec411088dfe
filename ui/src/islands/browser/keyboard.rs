//! Keys press what carries their name; dialogs open, statements are copied.

use leptos::prelude::*;
use wasm_bindgen::JsCast;
use web_sys::{Element, HtmlDialogElement, HtmlElement, HtmlInputElement, js_sys};

use super::{all, document};

/// Where a key is text and not a command. The editor of the SQL page lives in a tree of its own, whose root says so.
const TYPING: &str = "input, textarea, select, [contenteditable], [data-typing]";
/// What j and k go along.
const ROWS: &str = "main table.list tbody tr > :is(th, td:first-child) a[href]";

pub(in crate::islands) fn listen() {
    name_zone();
    // Buttons that need scripts are shown from now on.
    if let Some(root) = document().and_then(|document| document.document_element()) {
        let _ = root.class_list().add_1("scripted");
    }
    // The first of two keys, such as g.
    let before = StoredValue::new(None::<String>);
    window_event_listener(leptos::ev::keydown, move |event| {
        let key = event.key();
        if (event.ctrl_key() || event.meta_key()) && key.eq_ignore_ascii_case("k") {
            event.prevent_default();
            return open("palette");
        }
        let command = event.ctrl_key() || event.meta_key() || event.alt_key();
        if command || is_typing(event.target()) {
            return;
        }
        let pressed = before.get_value().map_or_else(|| key.clone(), |first| format!("{first} {key}"));
        if press(&pressed) {
            event.prevent_default();
            before.set_value(None);
        } else {
            before.set_value((key == "g").then_some(key));
        }
    });
    window_event_listener(leptos::ev::click, |event| {
        let Some(target) = event.target().and_then(|target| target.dyn_into::<Element>().ok()) else { return };
        if let Ok(Some(opener)) = target.closest("[data-dialog]") {
            event.prevent_default();
            open(&opener.get_attribute("data-dialog").unwrap_or_default());
        } else if let Ok(Some(button)) = target.closest("[data-copy]") {
            copy(&button);
        } else if let Some(dialog) = target.dyn_ref::<HtmlDialogElement>() {
            // Beside the dialog's content is its backdrop.
            dialog.close();
        }
    });
    window_event_listener(leptos::ev::input, |event| {
        let typed = event.target().and_then(|target| target.dyn_into::<HtmlInputElement>().ok());
        if let Some(input) = typed.filter(|input| matches!(input.closest("#palette"), Ok(Some(_)))) {
            narrow(&input.value());
        }
    });
    window_event_listener(leptos::ev::submit, |event| {
        let form = event.target().and_then(|target| target.dyn_into::<Element>().ok());
        if form.is_some_and(|form| matches!(form.closest("#palette"), Ok(Some(_)))) && follow_first() {
            event.prevent_default();
        }
    });
}

/// The link to the browser's own zone gets its name, which only the browser knows.
fn name_zone() {
    let options = js_sys::Intl::DateTimeFormat::new(&js_sys::Array::new(), &js_sys::Object::new()).resolved_options();
    let name = js_sys::Reflect::get(&options, &"timeZone".into()).ok().and_then(|name| name.as_string());
    let (Some(name), Some(link)) = (name, find("a[data-zone]")) else { return };
    let Some(href) = link.get_attribute("href") else { return };
    let escaped = String::from(js_sys::encode_uri_component(&name));
    let _ = link.set_attribute("href", &href.replace("tz=Etc/UTC", &format!("tz={escaped}")));
    link.set_text_content(Some(&format!("this browser's: {name}")));
}

fn is_typing(target: Option<web_sys::EventTarget>) -> bool {
    let element = target.and_then(|target| target.dyn_into::<Element>().ok());
    element.is_some_and(|element| matches!(element.closest(TYPING), Ok(Some(_))))
}

/// Does what a key stands for, if it stands for anything on this page.
fn press(keys: &str) -> bool {
    match keys {
        "?" => open("keys"),
        "/" => return focus(".filters input:not([type=hidden]), .scope select"),
        "z" => {
            if let Some(history) = web_sys::window().and_then(|window| window.history().ok()) {
                let _ = history.back();
            }
        }
        "." => return click(".live[role=switch]"),
        "j" => return step(1),
        "k" => return step(-1),
        // What would end the quotes of the selector names nothing.
        other if other.contains(['"', '\\']) => return false,
        other => return click(&format!("[data-key=\"{other}\"]")),
    }
    true
}

fn find(selector: &str) -> Option<HtmlElement> {
    document()?.query_selector(selector).ok()??.dyn_into().ok()
}

fn click(selector: &str) -> bool {
    let Some(element) = find(selector) else { return false };
    element.click();
    true
}

fn focus(selector: &str) -> bool {
    find(selector).is_some_and(|element| element.focus().is_ok())
}

/// Goes to the next or the previous row of the page's tables.
fn step(by: isize) -> bool {
    let Some(document) = document() else { return false };
    let rows = all(&document, ROWS);
    let Some(last) = rows.len().checked_sub(1) else { return false };
    let current = document.active_element().and_then(|active| rows.iter().position(|row| *row == active));
    let next = match current {
        Some(index) => index.saturating_add_signed(by).min(last),
        None => 0,
    };
    let row = rows.get(next).and_then(|row| row.dyn_ref::<HtmlElement>());
    row.is_some_and(|row| row.focus().is_ok())
}

fn open(id: &str) {
    let dialog = document().and_then(|document| document.get_element_by_id(id));
    if let Some(dialog) = dialog.and_then(|dialog| dialog.dyn_into::<HtmlDialogElement>().ok())
        && !dialog.open()
    {
        // Only a dialog that has left the page refuses.
        let _ = dialog.show_modal();
    }
}

/// Leaves those entries of the palette that have all the words.
fn narrow(typed: &str) {
    let Some(document) = document() else { return };
    let typed = typed.to_lowercase();
    for entry in all(&document, "#palette li") {
        let text = entry.text_content().unwrap_or_default().to_lowercase();
        let fits = typed.split_whitespace().all(|word| text.contains(word));
        if let Some(entry) = entry.dyn_ref::<HtmlElement>() {
            entry.set_hidden(!fits);
        }
    }
}

/// Goes where the first entry that is left leads. What was typed and fits none is searched for by the server.
fn follow_first() -> bool {
    click("#palette li:not([hidden]) a")
}

/// Puts the statement beside a button into the clipboard, and says so on the button.
fn copy(button: &Element) {
    let statement = button.closest("li").ok().flatten().and_then(|item| item.query_selector("pre").ok().flatten());
    let (Some(window), Some(statement)) = (web_sys::window(), statement) else { return };
    let text = statement.text_content().unwrap_or_default();
    let button = button.clone();
    leptos::task::spawn_local(async move {
        let copied = wasm_bindgen_futures::JsFuture::from(window.navigator().clipboard().write_text(&text)).await;
        button.set_text_content(Some(if copied.is_ok() { "Copied" } else { "Not allowed: select it below" }));
    });
}
