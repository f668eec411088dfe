//! `/chart.svg?page=/latency?range=1h&chart=TTFT percentiles`: one chart of a page as an image of its own.

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::{App, Visit, is_local};
use crate::frame::Theme;
use crate::pages;
use crate::panel::picture::{self, Pictures};
use crate::urlstate::{Fields, Scope, segment};
use crate::zone::Local;

/// An image opened by itself is a document: it may have the style inside it, and nothing else of anybody's.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox";

/// The image; `theme=dark` in dark colours.
pub(super) async fn svg(State(app): State<App>, RawQuery(query): RawQuery, headers: HeaderMap) -> Response {
    let fields = Fields::parse(&query.unwrap_or_default());
    let (Some(page), Some(title)) = (fields.long_text("page").filter(|page| is_local(page)), fields.text("chart"))
    else {
        let words = "the field `page` holds a path of a page with its query, `chart` the title of one of its charts";
        return (StatusCode::BAD_REQUEST, words).into_response();
    };
    let (path, query) =
        page.split_once('?').map_or((page.as_str(), None), |(path, query)| (path, Some(query.to_owned())));
    let pictures = Pictures::default();
    let visit = Visit { pictures: Some(pictures.clone()), is_patient: true, ..app.visit(path, query, &headers) };
    if !drawn(&app, &visit, path).await {
        return (StatusCode::NOT_FOUND, format!("{path} is no page with charts")).into_response();
    }
    let Some(found) = pictures.find(&title) else {
        let words = format!("{path} has no chart {title:?} now; it has: {}", pictures.titles().join(", "));
        return (StatusCode::NOT_FOUND, words).into_response();
    };
    let theme = Theme::named(fields.text("theme").as_deref());
    let image = picture::in_zone(Local::of(&Scope::parse(&visit.query)), || picture::image(&found, theme, path));
    let headers = [(header::CONTENT_TYPE, "image/svg+xml; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, POLICY)];
    (headers, image).into_response()
}

/// Renders a page for its charts; whether there is one.
async fn drawn(app: &App, visit: &Visit, path: &str) -> bool {
    let segments: Vec<String> = path.trim_matches('/').split('/').map(segment).collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match segments[..] {
        [""] => drop(pages::overview::page(app, visit).await),
        ["slo", id] => drop(pages::slo::detail::page(app, visit, id).await),
        ["latency"] => drop(pages::latency::page(app, visit).await),
        ["region", name] => drop(pages::fleet::region(app, visit, name).await),
        ["node", host] => drop(pages::node::page(app, visit, host).await),
        ["requests"] => drop(pages::requests::page(app, visit).await),
        ["cost"] => drop(pages::cost::page(app, visit).await),
        ["power"] => drop(pages::power::page(app, visit).await),
        ["logs"] => drop(pages::logs::page(app, visit).await),
        ["sql"] => drop(pages::sql::page(app, visit).await),
        _ => return false,
    }
    true
}
