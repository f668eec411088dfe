//! All that touches the document. Whatever the browser refuses is left as the server sent it.

pub(super) mod brush;
pub(super) mod keyboard;

use std::cell::RefCell;
use std::time::Duration;

use leptos::prelude::*;
use viz::hover::Hover;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{Document, DomParser, Element, HtmlElement, Response, SupportedType};

use super::cursor::Tip;

fn document() -> Option<Document> {
    web_sys::window()?.document()
}

/// All elements that match a selector. A selector that is none matches nothing.
fn all(root: &Document, selector: &str) -> Vec<Element> {
    let Ok(list) = root.query_selector_all(selector) else { return Vec::new() };
    (0..list.length()).filter_map(|index| list.item(index)?.dyn_into().ok()).collect()
}

/// Changes the colours in place and keeps the choice for a year.
pub(super) fn wear(theme: &str) {
    let Some(document) = document() else { return };
    if let Some(root) = document.document_element() {
        // Only an element that is being removed refuses.
        let _ = root.set_attribute("data-theme", theme);
    }
    if let Some(document) = document.dyn_ref::<web_sys::HtmlDocument>() {
        let _ = document.set_cookie(&format!("tokenwatt_theme={theme}; Path=/; Max-Age=31536000; SameSite=Lax"));
    }
}

/// Puts a URL into the address bar without loading it.
pub(super) fn show_address(url: &str) {
    if let Some(history) = web_sys::window().and_then(|window| window.history().ok()) {
        let _ = history.replace_state_with_url(&JsValue::NULL, "", Some(url));
    }
}

/// Renews the page's panels every so often, while `on` and while somebody can see it.
pub(super) fn renew(on: RwSignal<bool>, every_s: u32) {
    // A slow answer must not be overtaken by the next question.
    let busy = StoredValue::new(false);
    let tick = move || {
        let hidden = document().is_none_or(|document| document.hidden());
        if hidden || !on.get_untracked() || busy.get_value() {
            return;
        }
        busy.set_value(true);
        leptos::task::spawn_local(async move {
            if let Err(error) = renew_once("all").await {
                leptos::logging::warn!("panels were not renewed: {error:?}");
                age();
            }
            busy.set_value(false);
        });
    };
    set_interval(tick, Duration::from_secs(u64::from(every_s.max(1))));
}

/// Goes on with a page that was sent in part, until all of its panels are there.
pub(super) fn complete() {
    leptos::task::spawn_local(async move {
        while let Some(rest) = document().and_then(|document| rest_of(&document)) {
            if let Err(error) = renew_once(&rest).await {
                leptos::logging::warn!("the rest of the page did not come: {error:?}");
                return;
            }
        }
    });
}

/// The number of a page that was sent in part.
fn rest_of(document: &Document) -> Option<String> {
    document.query_selector("[data-rest]").ok()??.get_attribute("data-rest")
}

/// Asks for the page again and puts what is new into its place. `rest` is what of it is waited for: `all`, or what a page of that
/// number was sent without.
async fn renew_once(rest: &str) -> Result<(), JsValue> {
    let window = web_sys::window().ok_or(JsValue::NULL)?;
    let document = window.document().ok_or(JsValue::NULL)?;
    let (path, query) = (window.location().pathname()?, window.location().search()?);
    let sign = if query.is_empty() { '?' } else { '&' };
    let here = format!("{path}{query}{sign}rest={rest}");
    let response: Response = JsFuture::from(window.fetch_with_str(&here)).await?.dyn_into()?;
    if !response.ok() {
        return Err(JsValue::from_f64(f64::from(response.status())));
    }
    let html = JsFuture::from(response.text()?).await?.as_string().unwrap_or_default();
    let fresh = DomParser::new()?.parse_from_string(&html, SupportedType::TextHtml)?;
    // Panels that were not there before come with the whole of what they stand in.
    let is_known = |panel: &Element| document.get_element_by_id(&panel.id()).is_some();
    if let (Some(main), Some(newer)) = (document.get_element_by_id("main"), fresh.get_element_by_id("main"))
        && !all(&fresh, "main [data-refresh]").iter().all(is_known)
    {
        swap(&main, &newer);
    }
    for panel in all(&document, "[data-refresh]") {
        let Some(newer) = fresh.get_element_by_id(&panel.id()) else { continue };
        if !in_use(&document, &panel) || matches!(panel.query_selector(".pending"), Ok(Some(_))) {
            swap(&panel, &newer);
        }
    }
    Ok(())
}

/// Is the reader pointing at a chart of this panel, or is the keyboard in it?
fn in_use(document: &Document, panel: &Element) -> bool {
    let focused = document.active_element().is_some_and(|focused| panel.contains(Some(&focused)));
    focused || matches!(panel.query_selector("svg.chart:hover"), Ok(Some(_)))
}

/// Replaces the content of a panel; what was unfolded stays unfolded, what was scrolled stays so.
fn swap(panel: &Element, newer: &Element) {
    let html = newer.inner_html();
    if panel.inner_html() == html {
        return;
    }
    let opened =
        |panel: &Element| parts(panel, "details").iter().map(|part| part.has_attribute("open")).collect::<Vec<_>>();
    let scrolled = |panel: &Element| {
        parts(panel, ".scroll").iter().map(|part| (part.scroll_left(), part.scroll_top())).collect::<Vec<_>>()
    };
    let (open, scroll) = (opened(panel), scrolled(panel));
    panel.set_inner_html(&html);
    for (part, open) in parts(panel, "details").iter().zip(open) {
        if open {
            let _ = part.set_attribute("open", "");
        }
    }
    for (part, (left, top)) in parts(panel, ".scroll").iter().zip(scroll) {
        part.set_scroll_left(left);
        part.set_scroll_top(top);
    }
}

fn parts(panel: &Element, selector: &str) -> Vec<Element> {
    let Ok(list) = panel.query_selector_all(selector) else { return Vec::new() };
    (0..list.length()).filter_map(|index| list.item(index)?.dyn_into().ok()).collect()
}

/// The server is not answering: the freshness chip must not look fresh.
fn age() {
    if let Some(chip) = document().and_then(|document| document.query_selector("#freshness .chip").ok().flatten()) {
        chip.set_class_name("chip stale");
    }
}

thread_local! {
    /// The chart under the pointer and its samples, parsed once.
    static UNDER: RefCell<Option<(Element, Hover)>> = const { RefCell::new(None) };
}

/// Moves the line and fills the note as the pointer or the arrow keys go over a chart.
pub(super) fn follow_pointer(tip: RwSignal<Option<Tip>>) {
    window_event_listener(leptos::ev::pointermove, move |event| {
        let chart = chart_of(event.target());
        match chart {
            Some(chart) => {
                let frame = chart.get_bounding_client_rect();
                let share = (f64::from(event.client_x()) - frame.left()) / frame.width().max(1.0);
                let place = (f64::from(event.client_x()), f64::from(event.client_y()));
                let index = read(&chart, |hover| hover.nearest(share)).flatten();
                point(tip, &chart, index, place);
            }
            None if tip.with_untracked(Option::is_some) => leave(tip),
            None => {}
        }
    });
    window_event_listener(leptos::ev::keydown, move |event| {
        let Some(chart) = chart_of(event.target()) else { return };
        let step = match event.key().as_str() {
            "ArrowLeft" => -1,
            "ArrowRight" => 1,
            "Escape" => return leave(tip),
            _ => return,
        };
        event.prevent_default();
        let stride = if event.shift_key() { 10 } else { 1 };
        let index = read(&chart, |hover| step_from(hover, current(&chart), step * stride)).flatten();
        let frame = chart.get_bounding_client_rect();
        let share = index.and_then(|index| read(&chart, |hover| hover.share(index)).flatten()).unwrap_or(0.0);
        point(tip, &chart, index, (frame.left() + share * frame.width(), frame.top() + 24.0));
    });
}

fn step_from(hover: &Hover, current: Option<usize>, step: isize) -> Option<usize> {
    let last = hover.x.len().checked_sub(1)?;
    let next = match current {
        Some(index) => index.saturating_add_signed(step).min(last),
        None if step < 0 => last,
        None => 0,
    };
    Some(next)
}

fn current(chart: &Element) -> Option<usize> {
    chart.get_attribute("data-at")?.parse().ok()
}

fn chart_of(target: Option<web_sys::EventTarget>) -> Option<Element> {
    target?.dyn_into::<Element>().ok()?.closest("svg.chart").ok().flatten()
}

/// Reads the samples that a chart carries.
fn read<T>(chart: &Element, with: impl FnOnce(&Hover) -> T) -> Option<T> {
    UNDER.with_borrow_mut(|under| {
        if under.as_ref().is_none_or(|(known, _)| known != chart) {
            let text = chart.get_attribute("data-hover")?;
            *under = Some((chart.clone(), serde_json::from_str(&text).ok()?));
        }
        under.as_ref().map(|(_, hover)| with(hover))
    })
}

fn point(tip: RwSignal<Option<Tip>>, chart: &Element, index: Option<usize>, place: (f64, f64)) {
    let Some(index) = index else { return leave(tip) };
    let found = read(chart, |hover| (hover.heading(index), hover.readings(index), hover.share(index), hover.wall));
    let Some((heading, readings, Some(share), wall)) = found else { return leave(tip) };
    let _ = chart.set_attribute("data-at", &index.to_string());
    draw_line(chart, share, wall);
    tip.set(Some(Tip { heading, readings, place }));
    put_note(place);
}

/// Charts over wall time share their axis, so the line goes through all of them.
fn draw_line(chart: &Element, share: f64, wall: bool) {
    let Some(document) = document() else { return };
    let x = format!("{:.3}%", share * 100.0);
    for other in all(&document, "svg.chart") {
        let meant = if wall { !other.class_list().contains("tokens") } else { &other == chart };
        if let Ok(Some(line)) = other.query_selector(".cross") {
            let _ = line.set_attribute("x1", &x);
            let _ = line.set_attribute("x2", &x);
            let _ = line.class_list().toggle_with_force("on", meant);
        }
    }
}

/// Puts the note beside the pointer, on the side with room.
fn put_note(place: (f64, f64)) {
    let Some(window) = web_sys::window() else { return };
    let note = window.document().and_then(|document| document.get_element_by_id("tip"));
    let Some(note) = note.and_then(|note| note.dyn_into::<HtmlElement>().ok()) else { return };
    let wide = window.inner_width().ok().and_then(|width| width.as_f64()).unwrap_or(1024.0);
    let left = if place.0 > wide * 0.6 { place.0 - 16.0 - f64::from(note.offset_width()) } else { place.0 + 16.0 };
    let style = note.style();
    let _ = style.set_property("left", &format!("{:.0}px", left.max(4.0)));
    let _ = style.set_property("top", &format!("{:.0}px", (place.1 + 12.0).max(4.0)));
}

fn leave(tip: RwSignal<Option<Tip>>) {
    tip.set(None);
    let Some(document) = document() else { return };
    for line in all(&document, ".cross.on") {
        let _ = line.class_list().remove_1("on");
    }
}
