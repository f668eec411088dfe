//! A chart by itself: an image with its title, unit, legend, range and as-of, in colours of its own, to be shared or kept.
//!
//! While a page is rendered its charts leave a [`Picture`] each, if somebody collects them. So the image is the very drawing of the page.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use leptos::prelude::*;
use viz::escape;

use crate::assets;
use crate::frame::Theme;
use crate::urlstate::Fields;
use crate::zone;

/// One chart as the page draws it.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    pub(crate) title: String,
    /// Width of its buckets, µs.
    pub(crate) step_us: i64,
    /// Ends of its axis, µs since the epoch.
    pub(crate) span_us: (i64, i64),
    /// The newest event that it knows, µs.
    pub(crate) as_of_us: i64,
    pub(crate) svg: String,
    pub(crate) legend: Vec<Key>,
}

/// An entry of a legend.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    /// Classes of the style sheet that give its colour, those of a line or of an area.
    pub(crate) class: String,
    pub(crate) name: String,
    /// The newest value, with its unit.
    pub(crate) value: String,
}

/// The charts of a page, as they are drawn.
#[derive(Clone, Default)]
pub(crate) struct Pictures(Arc<Mutex<Vec<Picture>>>);

impl Pictures {
    /// The chart of that title.
    pub(crate) fn find(&self, title: &str) -> Option<Picture> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|picture| picture.title == title).cloned()
    }

    /// What charts there are.
    pub(crate) fn titles(&self) -> Vec<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|picture| picture.title.clone()).collect()
    }
}

/// Path and query of the page that is rendered.
#[derive(Clone)]
pub(crate) struct Here(pub(crate) String);

/// Leaves a chart with whoever collects them, and gives the link to its image: that of this stretch of time, also tomorrow. The button beside
/// it has the browser draw the same image as PNG (`ui/editor/picture.js`), so it is there with scripts alone.
pub(crate) fn kept(picture: Picture) -> AnyView {
    let link = use_context::<Here>().map(|here| link(&here.0, &picture));
    if let Some(pictures) = use_context::<Pictures>() {
        pictures.0.lock().unwrap_or_else(PoisonError::into_inner).push(picture);
    }
    let item = |link| view! { <li class="save"><a href=link download="tokenwatt.svg">"SVG"</a><button type="button" class="png" data-png="">"PNG"</button></li> };
    link.map(item).into_any()
}

fn link(here: &str, picture: &Picture) -> String {
    let (path, query) = here.split_once('?').unwrap_or((here, ""));
    let of = Fields::parse(query).within(picture.span_us);
    let mut fields = Fields::default();
    fields.set("page", of.link(path));
    fields.set("chart", picture.title.clone());
    fields.link("/chart.svg")
}

/// Does something as the page of that zone would.
pub(crate) fn in_zone<T>(local: zone::Local, make: impl FnOnce() -> T) -> T {
    Owner::new().with(|| {
        provide_context(local);
        make()
    })
}

const WIDTH: usize = 960;
const MARGIN: usize = 20;
/// Room for the labels of the chart's rows, left of it.
const ROWS: usize = 66;
/// Where the chart begins.
const TOP: usize = 62;
/// Heights of a legend's line and of the foot.
const LINE: usize = 20;
const FOOT: usize = 26;
/// Letters of a legend's line, as far as widths can be told without a font.
const LETTERS: usize = 120;

/// The image, complete in itself: no style sheet, no script, no font of ours.
pub(crate) fn image(picture: &Picture, theme: Theme, from: &str) -> String {
    let dark = theme == Theme::Dark;
    let (inner, chart_height) = unwrapped(&picture.svg);
    let rows = rows(&picture.legend);
    let height = TOP + chart_height + 10 + rows.len() * LINE + FOOT;
    let left = MARGIN + ROWS;
    let wide = WIDTH - MARGIN - left;
    let mut out = String::with_capacity(inner.len() + 8192);
    // Writing to a string cannot fail, here and below.
    let _ = write!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{}"><style>{}</style><rect class="paper" width="100%" height="100%"/>"#,
        escape(&picture.title),
        escape(&assets::chart_style(dark)),
    );
    let _ = write!(out, r#"<text class="title" x="{MARGIN}" y="28">{}</text>"#, escape(&picture.title));
    let _ = write!(out, r#"<text class="said" x="{MARGIN}" y="47">{}</text>"#, escape(&stretch(picture)));
    let _ = write!(
        out,
        r#"<svg x="{left}" y="{TOP}" width="{wide}" height="{chart_height}" overflow="visible">{inner}</svg>"#
    );
    let mut y = TOP + chart_height + 10;
    for row in rows {
        y += LINE;
        legend(&mut out, row, y);
    }
    let foot = format!("Tokenwatt · {from}");
    let _ = write!(out, r#"<text class="said" x="{MARGIN}" y="{}">{}</text></svg>"#, height - 10, escape(&foot));
    out
}

/// Which stretch of time, in whose time, in which buckets, and as of when.
fn stretch(picture: &Picture) -> String {
    let local = |at: i64| zone::local(at.div_euclid(1_000_000) * 1_000_000).replace('T', " ");
    format!(
        "{} to {} {} · buckets of {} s · data to {}",
        local(picture.span_us.0),
        local(picture.span_us.1),
        zone::name(),
        picture.step_us / 1_000_000,
        zone::clock(picture.as_of_us.min(picture.span_us.1)),
    )
}

/// The drawing without its outermost element, and how high that is.
fn unwrapped(svg: &str) -> (&str, usize) {
    let (open, rest) = svg.split_once('>').unwrap_or(("", svg));
    let height = open.split_once("height=\"").and_then(|(_, rest)| rest.split('"').next()?.parse::<f64>().ok());
    (rest.strip_suffix("</svg>").unwrap_or(rest), height.map_or(190, |height| height.ceil() as usize))
}

/// The legend in as many lines as it takes.
fn rows(legend: &[Key]) -> Vec<&[Key]> {
    let mut rows = Vec::new();
    let (mut start, mut letters) = (0, 0);
    for (index, key) in legend.iter().enumerate() {
        let wide = key.name.chars().count() + key.value.chars().count() + 6;
        if index > start && letters + wide > LETTERS {
            rows.extend(legend.get(start..index));
            (start, letters) = (index, 0);
        }
        letters += wide;
    }
    rows.extend(legend.get(start..).filter(|rest| !rest.is_empty()));
    rows
}

fn legend(out: &mut String, keys: &[Key], y: usize) {
    let _ = write!(out, r#"<text class="said" x="{MARGIN}" y="{y}">"#);
    for (index, key) in keys.iter().enumerate() {
        let gap = if index > 0 { 18 } else { 0 };
        let _ = write!(
            out,
            r#"<tspan class="mark {}" dx="{gap}">■</tspan><tspan dx="6">{}</tspan><tspan class="value" dx="6">{}</tspan>"#,
            escape(&key.class),
            escape(&key.name),
            escape(&key.value),
        );
    }
    out.push_str("</text>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture() -> Picture {
        let key = |name: &str| Key { class: "s1".into(), name: name.into(), value: "12.3\u{202f}ms".into() };
        Picture {
            title: "TTFT <p99>".into(),
            step_us: 10_000_000,
            span_us: (1_795_953_600_000_000, 1_795_954_500_000_000),
            as_of_us: 1_795_954_498_000_000,
            svg: r#"<svg class="chart" width="100%" height="186" role="img"><path class="line s1" d="M0 0"/></svg>"#
                .into(),
            legend: (0..9).map(|index| key(&format!("a rather long name of a line, {index}"))).collect(),
        }
    }

    #[test]
    fn an_image_stands_alone_and_says_what_it_is() {
        let light = image(&picture(), Theme::Light, "/latency");
        for part in [
            "<svg xmlns=\"http://www.w3.org/2000/svg\"",
            "TTFT &lt;p99&gt;",
            "2026-11-29 12:00:00 to 2026-11-29 12:15:00 UTC · buckets of 10 s · data to 12:14:58 UTC",
            "<path class=\"line s1\" d=\"M0 0\"/>",
        ] {
            assert!(light.contains(part), "{part} is not in {light}");
        }
        assert_eq!(light.matches("<svg").count(), light.matches("</svg>").count());
        assert!(
            !light.contains("var(--") && !light.contains("light-dark") && !light.contains("href"),
            "nothing from outside"
        );
        assert_ne!(light, image(&picture(), Theme::Dark, "/latency"));
        assert!(light.matches("<text class=\"said\"").count() > 4, "a long legend takes several lines");
    }

    #[test]
    fn a_link_keeps_the_stretch_of_time() {
        let link = link("/latency?range=1h&metric=e2e&live=off", &picture());
        let fields = Fields::parse(link.split_once('?').unwrap().1);
        let page = fields.long_text("page").unwrap();
        assert_eq!(page, "/latency?from=2026-11-29T12:00:00Z&to=2026-11-29T12:15:00Z&metric=e2e");
        assert_eq!(fields.text("chart").as_deref(), Some("TTFT <p99>"));
    }
}
