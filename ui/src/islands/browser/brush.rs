//! A drag over a chart of wall time makes its stretch the page's range; over a heat map it draws a box, whose calls the page compares with
//! all others. It is one entry of the browser's history, so going back undoes it.

use std::cell::RefCell;

use leptos::prelude::*;
use web_sys::{Element, PointerEvent, UrlSearchParams};

use super::{chart_of, document, read};
use crate::times::TIMES;

/// A drag that is shorter is a click, as a share of the width.
const LEAST: f64 = 0.01;

thread_local! {
    /// The chart on which the button was pressed, and where.
    static HELD: RefCell<Option<(Element, Point)>> = const { RefCell::new(None) };
}

/// A place on a chart: the share of its width, and px from its top.
#[derive(Clone, Copy)]
struct Point {
    x: f64,
    y: f64,
}

/// On a heat map a drag that goes less far up or down is along time alone, px.
const HEIGHT_LEAST: f64 = 8.0;

pub(in crate::islands) fn listen() {
    // A page that was shared has no other stretch of time to go to.
    if document().and_then(|document| document.body()).is_some_and(|body| body.class_list().contains("shared")) {
        return;
    }
    window_event_listener(leptos::ev::pointerdown, |event| {
        let chart = chart_of(event.target()).filter(|chart| read(chart, |hover| hover.wall) == Some(true));
        let Some(chart) = chart.filter(|_| event.button() == 0 && event.pointer_type() == "mouse") else { return };
        // No text is to be marked on the way.
        event.prevent_default();
        let from = point(&chart, &event);
        HELD.set(Some((chart, from)));
    });
    window_event_listener(leptos::ev::pointermove, |event| {
        HELD.with_borrow(|held| {
            if let Some((chart, from)) = held {
                draw(chart, *from, point(chart, &event));
            }
        });
    });
    window_event_listener(leptos::ev::pointerup, |event| {
        let Some((chart, from)) = HELD.take() else { return };
        let to = point(&chart, &event);
        draw(&chart, from, from);
        let Some((domain, levels)) = read(&chart, |hover| (hover.domain, hover.levels)) else { return };
        if (to.x - from.x).abs() < LEAST {
            return;
        }
        let times = (at(domain, from.x.min(to.x)), at(domain, from.x.max(to.x)));
        match levels.filter(|_| is_box(from, to)) {
            Some(levels) => choose(times, (levels.value(from.y.max(to.y)), levels.value(from.y.min(to.y)))),
            None => show(times),
        }
    });
}

fn point(chart: &Element, event: &PointerEvent) -> Point {
    let frame = chart.get_bounding_client_rect();
    let x = ((f64::from(event.client_x()) - frame.left()) / frame.width().max(1.0)).clamp(0.0, 1.0);
    Point { x, y: f64::from(event.client_y()) - frame.top() }
}

fn is_box(from: Point, to: Point) -> bool {
    (from.y - to.y).abs() >= HEIGHT_LEAST
}

/// Milliseconds since the epoch, as links may name instants too.
fn at((low, high): (f64, f64), share: f64) -> String {
    format!("{:.0}", (low + share * (high - low)) / 1e3)
}

fn draw(chart: &Element, from: Point, to: Point) {
    let Ok(Some(brush)) = chart.query_selector(".brush") else { return };
    let _ = brush.set_attribute("x", &format!("{:.3}%", from.x.min(to.x) * 100.0));
    let _ = brush.set_attribute("width", &format!("{:.3}%", (from.x - to.x).abs() * 100.0));
    let Some(levels) = read(chart, |hover| hover.levels).flatten() else { return };
    let (top, bottom) = (levels.top, levels.top + levels.height);
    let (high, low) = if is_box(from, to) {
        (from.y.min(to.y).clamp(top, bottom), from.y.max(to.y).clamp(top, bottom))
    } else {
        (top, bottom)
    };
    let _ = brush.set_attribute("y", &format!("{high:.1}"));
    let _ = brush.set_attribute("height", &format!("{:.1}", low - high));
}

/// Loads this page with another range; whatever else it shows stays.
fn show((from, to): (String, String)) {
    // Keys of the next page of a list mean nothing in another stretch, nor does a box.
    go(&[&TIMES[..], &["before", "after"][..], &BOX[..]].concat(), &[("from", from), ("to", to)]);
}

/// Loads this page with a box chosen. The page's range stays.
fn choose((from, to): (String, String), (low, high): (f64, f64)) {
    let value = |value: f64| format!("{value:.9}");
    go(&BOX, &[("box_from", from), ("box_to", to), ("box_low", value(low)), ("box_high", value(high))]);
}

/// Fields of a box.
const BOX: [&str; 4] = ["box_from", "box_to", "box_low", "box_high"];

/// Loads this page without some fields of its URL and with others.
fn go(without: &[&str], with: &[(&str, String)]) {
    let Some(location) = web_sys::window().map(|window| window.location()) else { return };
    let search = location.search().unwrap_or_default();
    let Ok(fields) = UrlSearchParams::new_with_str(&search) else { return };
    without.iter().for_each(|name| fields.delete(name));
    with.iter().for_each(|(name, value)| fields.append(name, value));
    let _ = location.set_search(&String::from(fields.to_string()));
}
