//! A drag over a chart of wall time makes its stretch the page's range. It is one entry of the browser's history, so going back
//! undoes it.

use std::cell::RefCell;

use leptos::prelude::*;
use web_sys::{Element, UrlSearchParams};

use super::{chart_of, read};

/// A drag that is shorter is a click, as a share of the width.
const LEAST: f64 = 0.01;

thread_local! {
    /// The chart on which the button was pressed, and where, as a share of its width.
    static HELD: RefCell<Option<(Element, f64)>> = const { RefCell::new(None) };
}

pub(in crate::islands) fn listen() {
    window_event_listener(leptos::ev::pointerdown, |event| {
        let chart = chart_of(event.target()).filter(|chart| read(chart, |hover| hover.wall) == Some(true));
        let Some(chart) = chart.filter(|_| event.button() == 0 && event.pointer_type() == "mouse") else { return };
        // No text is to be marked on the way.
        event.prevent_default();
        let share = share(&chart, f64::from(event.client_x()));
        HELD.set(Some((chart, share)));
    });
    window_event_listener(leptos::ev::pointermove, |event| {
        HELD.with_borrow(|held| {
            if let Some((chart, from)) = held {
                draw(chart, *from, share(chart, f64::from(event.client_x())));
            }
        });
    });
    window_event_listener(leptos::ev::pointerup, |event| {
        let Some((chart, from)) = HELD.take() else { return };
        let to = share(&chart, f64::from(event.client_x()));
        draw(&chart, 0.0, 0.0);
        if (to - from).abs() >= LEAST
            && let Some(domain) = read(&chart, |hover| hover.domain)
        {
            show(domain, from.min(to), from.max(to));
        }
    });
}

fn share(chart: &Element, x: f64) -> f64 {
    let frame = chart.get_bounding_client_rect();
    ((x - frame.left()) / frame.width().max(1.0)).clamp(0.0, 1.0)
}

fn draw(chart: &Element, from: f64, to: f64) {
    let Ok(Some(brush)) = chart.query_selector(".brush") else { return };
    let _ = brush.set_attribute("x", &format!("{:.3}%", from.min(to) * 100.0));
    let _ = brush.set_attribute("width", &format!("{:.3}%", (from - to).abs() * 100.0));
}

/// Loads this page with another range; whatever else it shows stays.
fn show((low, high): (f64, f64), from: f64, to: f64) {
    let Some(location) = web_sys::window().map(|window| window.location()) else { return };
    let search = location.search().unwrap_or_default();
    let Ok(fields) = UrlSearchParams::new_with_str(&search) else { return };
    for name in ["range", "from", "to", "time", "time.window", "live", "before", "after"] {
        fields.delete(name);
    }
    for (name, share) in [("from", from), ("to", to)] {
        // Milliseconds, as links may name instants too.
        fields.append(name, &format!("{:.0}", (low + share * (high - low)) / 1e3));
    }
    let _ = location.set_search(&String::from(fields.to_string()));
}
