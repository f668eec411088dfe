//! The pointer over a chart: one line through all charts of the page, numbers in one note.

use leptos::prelude::*;
use viz::hover::Reading;

/// What the note says, and where the pointer is, in px from the corner of the window.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tip {
    pub(crate) heading: String,
    pub(crate) readings: Vec<Reading>,
    pub(crate) place: (f64, f64),
}

/// The note beside the pointer. Charts need no script of their own: they carry their samples, and
/// this one island listens for the whole page, also to panels that were renewed since.
#[island]
pub fn Cursor() -> impl IntoView {
    let tip = RwSignal::new(None::<Tip>);
    #[cfg(feature = "hydrate")]
    super::browser::follow_pointer(tip);
    let heading = move || tip.with(|tip| tip.as_ref().map(|tip| tip.heading.clone()).unwrap_or_default());
    let rows = move || {
        let readings = tip.with(|tip| tip.as_ref().map(|tip| tip.readings.clone()).unwrap_or_default());
        readings
            .into_iter()
            .map(|reading| view! { <li><i class=format!("dot s{}", reading.slot)></i>{reading.name}<b>{reading.value}</b></li> })
            .collect_view()
    };
    view! {
        <div id="tip" class="tip" class:on=move || tip.with(Option::is_some) role="status" aria-live="polite">
            <p>{heading}</p>
            <ul>{rows}</ul>
        </div>
    }
}
