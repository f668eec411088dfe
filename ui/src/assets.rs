//! Files that pages refer to: the style sheet and icon in the binary, and the wasm bundle on disk.

use std::path::{Path, PathBuf};

use axum::Router;
use axum::extract::Path as UrlPath;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;
use tower_http::services::ServeDir;
use tower_http::set_header::SetResponseHeaderLayer;

const STYLE: &str = include_str!("../assets/tokenwatt.css");
const ICON: &str = include_str!("../assets/icon.svg");
const FOREVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// Islands as WebAssembly, built by `cargo xtask web`.
#[derive(Clone, Debug)]
pub(crate) struct Bundle {
    dir: PathBuf,
    manifest: Manifest,
}

/// What the build writes beside the files.
#[derive(Clone, Debug, Deserialize)]
struct Manifest {
    /// Script that a page loads.
    entry: String,
    /// Script that the entry imports.
    glue: String,
    /// WebAssembly that the glue starts.
    module: String,
    /// Functions that the module exports, the islands' among them.
    exports: Vec<String>,
}

impl Bundle {
    /// Opens a bundle, or says why it cannot be used. Pages are complete without one.
    pub(crate) fn open(dir: &Path, islands: &[String]) -> Result<Self, String> {
        let path = dir.join("manifest.json");
        let text = std::fs::read_to_string(&path).map_err(|error| format!("read {}: {error}", path.display()))?;
        let manifest: Manifest =
            serde_json::from_str(&text).map_err(|error| format!("parse {}: {error}", path.display()))?;
        // Islands are found by a hash of their source: a bundle of other sources would leave them dead.
        if let Some(missing) = islands.iter().find(|island| !manifest.exports.contains(island)) {
            return Err(format!("{} was built from other sources: it has no island {missing}", dir.display()));
        }
        let files = [&manifest.entry, &manifest.glue, &manifest.module];
        if let Some(missing) = files.into_iter().find(|file| !dir.join(file).is_file()) {
            return Err(format!("{missing} is missing from {}", dir.display()));
        }
        // `current` may name another bundle while this one is being served.
        let dir = std::fs::canonicalize(dir).map_err(|error| format!("find {}: {error}", dir.display()))?;
        Ok(Self { dir, manifest })
    }

    /// The tags that start the islands. What the script will ask for next is announced, so that it comes at once.
    pub(crate) fn tags(&self) -> String {
        let Manifest { entry, glue, module, .. } = &self.manifest;
        format!(
            "<link rel=\"modulepreload\" href=\"/assets/web/{glue}\">\
             <link rel=\"preload\" as=\"fetch\" type=\"application/wasm\" crossorigin href=\"/assets/web/{module}\">\
             <script type=\"module\" src=\"/assets/web/{entry}\"></script>"
        )
    }
}

/// URL of the style sheet, which changes with its content.
pub(crate) fn style_url() -> String {
    format!("/assets/tokenwatt-{:08x}.css", fingerprint(STYLE))
}

/// URL of the icon.
pub(crate) fn icon_url() -> String {
    format!("/assets/icon-{:08x}.svg", fingerprint(ICON))
}

/// The style sheet's part about charts for an image of its own: one theme's colours in the place of their names, and colours of paper
/// and words. `color-mix` is left to whoever draws it.
pub(crate) fn chart_style(dark: bool) -> String {
    let charts = STYLE.split_once("@layer charts {").map_or("", |(_, rest)| rest);
    let charts = charts.split_once("\n}\n").map_or(charts, |(charts, _)| charts);
    let drawn = [
        ".line", ".grid", ".base", ".notch", ".tick", "line.", "text.", ".s", ".heat", ".h", ".piece", ".chosen",
        ".plot",
    ];
    let rules = charts.lines().map(str::trim).filter(|rule| drawn.iter().any(|class| rule.starts_with(class)));
    let mut text: String = rules.collect::<Vec<_>>().join("\n");
    text.push_str(
        "\n.paper { fill: var(--surface); } .title { fill: var(--ink); font: 600 16px var(--sans); } \
         .said { fill: var(--muted); font: 12px var(--sans); } .value { fill: var(--ink); font-weight: 600; } \
         .mark { fill: currentColor; stroke: none; } .cross, .brush { display: none; }",
    );
    // Values name others at most once more.
    for _ in 0..2 {
        for (name, value) in tokens(dark) {
            text = text.replace(&format!("var(--{name})"), &value);
        }
    }
    text
}

/// Names and values of the sheet's tokens in one theme.
fn tokens(dark: bool) -> Vec<(&'static str, String)> {
    let root = STYLE.split_once(":root {").and_then(|(_, rest)| rest.split_once('}')).map_or("", |(root, _)| root);
    let token = |line: &'static str| {
        let (name, value) = line.trim().strip_prefix("--")?.split_once(':')?;
        let value = value.trim().trim_end_matches(';');
        let two = value.strip_prefix("light-dark(").and_then(|rest| rest.strip_suffix(')')?.split_once(','));
        let value = two.map_or(value, |(light, night)| if dark { night.trim() } else { light.trim() });
        Some((name, value.to_owned()))
    };
    root.lines().filter_map(token).collect()
}

/// FNV-1a: enough to tell two versions of a file apart.
fn fingerprint(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Serves them all under `/assets`.
pub(crate) fn router(bundle: Option<&Bundle>) -> Router {
    let router = Router::new().route("/assets/{file}", get(embedded));
    match bundle {
        Some(bundle) => router.nest_service("/assets/web", ServeDir::new(&bundle.dir).precompressed_br()),
        None => router,
    }
    .layer(SetResponseHeaderLayer::if_not_present(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")))
    .layer(SetResponseHeaderLayer::overriding(header::CACHE_CONTROL, cache_of))
}

/// What was found never changes under its name; what was not may appear with the next version.
fn cache_of(response: &Response) -> Option<HeaderValue> {
    response.status().is_success().then_some(FOREVER)
}

async fn embedded(UrlPath(file): UrlPath<String>) -> Response {
    let path = format!("/assets/{file}");
    let (kind, text) = if path == style_url() {
        ("text/css; charset=utf-8", STYLE)
    } else if path == icon_url() {
        ("image/svg+xml", ICON)
    } else {
        return StatusCode::NOT_FOUND.into_response();
    };
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_of_other_sources_is_refused() {
        let dir = std::env::temp_dir().join(format!("tokenwatt-bundle-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for file in ["start.js", "ui.js", "ui.wasm"] {
            std::fs::write(dir.join(file), "").unwrap();
        }
        let manifest = r#"{"entry":"start.js","glue":"ui.js","module":"ui.wasm","exports":["hydrate","Live_1"]}"#;
        std::fs::write(dir.join("manifest.json"), manifest).unwrap();
        assert!(Bundle::open(&dir, &["Live_1".into()]).is_ok());
        assert!(Bundle::open(&dir, &["Live_2".into()]).unwrap_err().contains("Live_2"));
        std::fs::remove_file(dir.join("start.js")).unwrap();
        assert!(Bundle::open(&dir, &["Live_1".into()]).unwrap_err().contains("start.js"));
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(Bundle::open(&dir, &[]).is_err());
    }

    /// The budget of a first load leaves the style sheet this much after compression; hand-written CSS shrinks
    /// to about a quarter.
    #[test]
    fn the_style_sheet_stays_small() {
        assert!(STYLE.len() < 40_000, "{}", STYLE.len());
    }

    /// Both shades of every colour, by name.
    fn colours() -> std::collections::BTreeMap<&'static str, [&'static str; 2]> {
        let named = STYLE.split("--").skip(1).filter_map(|rest| {
            let (name, value) = rest.split_once(": light-dark(")?;
            let (light, rest) = value.split_once(", ")?;
            Some((name, [light, rest.split_once(')')?.0]))
        });
        named.filter(|(_, shades)| shades.iter().all(|shade| shade.len() == 7 && shade.starts_with('#'))).collect()
    }

    /// WCAG 2.2, "relative luminance".
    fn luminance(colour: &str) -> f64 {
        let part = |at: usize| {
            let share = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    fn contrast(one: &str, other: &str) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    /// Text 4.5 to 1 on everything it stands on, marks 3 to 1 on their panel, in light and in dark (WCAG 2.2 AA, 1.4.3 and 1.4.11).
    #[test]
    fn text_and_marks_are_told_from_what_they_stand_on() {
        let colours = colours();
        let text = ["ink", "muted", "accent", "ok", "warn", "crit", "word", "call", "number", "text"];
        let marks = [
            "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "queue", "prefill", "decode", "rest", "p50", "p90", "p99",
            "few", "many",
        ];
        let stand = |names: &[&str], on: &[&str], least: f64| {
            for (name, ground) in names.iter().flat_map(|name| on.iter().map(move |ground| (name, ground))) {
                for (mark, under) in colours[name].iter().zip(colours[ground]) {
                    let found = contrast(mark, under);
                    assert!(found >= least, "--{name} on --{ground} has {found:.2} to 1");
                }
            }
        };
        stand(&text, &["bg", "surface", "raised", "wash"], 4.5);
        stand(&marks, &["surface"], 3.0);
        assert!((contrast("#ffffff", "#000000") - 21.0).abs() < 1e-9);
    }

    /// A policy that forbids foreign sources would block them anyway; this says where.
    #[test]
    fn no_file_refers_to_another_host() {
        for text in [STYLE, ICON] {
            let foreign = text.replace("http://www.w3.org/2000/svg", "");
            assert!(
                !foreign.contains("http:") && !foreign.contains("https:") && !foreign.contains("//"),
                "foreign reference"
            );
        }
    }
}
