//! Telemetry that is markup, and paths that climb.

use serde_json::Value;
use telemetry::contract::{Answering, SqlAnswer, SqlRequest};

use super::*;

/// Each ends another kind of context: text, attribute, script, URL, style, and what an editor of HTML might undo.
const PAYLOADS: [&str; 7] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "'><svg onload=alert(1)>",
    "javascript:alert(1)//",
    "</title></style></textarea><iframe srcdoc='<script>alert(1)</script>'>",
    "&lt;img src=x onerror=alert(1)&gt;",
    "\" onfocus=alert(1) autofocus x=\"",
];

/// The busy fleet with one payload in place of every text that is no time, no number and no id, and in every key of a map.
#[derive(Clone, Copy)]
struct Hostile(&'static str);

impl QueryApi for Hostile {
    fn sql(&self, request: SqlRequest) -> Answering<'_> {
        Box::pin(async move {
            let mut answer: SqlAnswer = Fleet::Busy.sql(request).await?;
            answer.rows.iter_mut().flatten().for_each(|value| soil(value, self.0));
            answer.served_by = self.0.to_owned();
            answer.notice = Some(self.0.to_owned());
            Ok(answer)
        })
    }
}

fn soil(value: &mut Value, payload: &str) {
    match value {
        Value::String(text) => {
            let is_time = text.contains('T') && text.starts_with("20");
            let is_id = text.len() >= 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !is_time && !is_id && text.parse::<f64>().is_err() {
                *text = payload.to_owned();
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| soil(value, payload)),
        Value::Object(map) => {
            let entries: Vec<(String, Value)> = std::mem::take(map).into_iter().collect();
            for (place, (_, mut value)) in entries.into_iter().enumerate() {
                soil(&mut value, payload);
                map.insert(format!("{payload}{place}"), value);
            }
        }
        _ => {}
    }
}

/// What markup has that only a payload brings: a script, a frame, an image, a handler, an address that is a script. Reads tags as a
/// browser does, with their quoted attributes.
fn broken_out(html: &str) -> Option<String> {
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if !rest.starts_with(|first: char| first.is_ascii_alphabetic()) {
            continue;
        }
        let name =
            rest.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-').next().unwrap_or_default();
        rest = &rest[name.len()..];
        let mut attributes = Vec::new();
        loop {
            rest = rest.trim_start_matches(|letter: char| letter.is_whitespace() || letter == '/');
            if rest.is_empty() || rest.starts_with('>') {
                break;
            }
            let key =
                rest.split(|letter: char| letter.is_whitespace() || "=>/".contains(letter)).next().unwrap_or_default();
            rest = rest[key.len()..].trim_start();
            let Some(value) = rest.strip_prefix('=') else {
                attributes.push((key, ""));
                // A lone sign is its own name.
                rest = if key.is_empty() { &rest[1..] } else { rest };
                continue;
            };
            let quoted = value.strip_prefix('"').and_then(|value| value.split_once('"'));
            let (value, after) =
                quoted.unwrap_or_else(|| value.split_at(value.find([' ', '>']).unwrap_or(value.len())));
            attributes.push((key, value));
            rest = after;
        }
        let is_strange = |(key, value): &(&str, &str)| {
            let value = value.trim_start().to_ascii_lowercase();
            key.starts_with("on")
                || *key == "srcdoc"
                || (["href", "src", "action"].contains(key) && value.starts_with("javascript:"))
        };
        let forbidden = ["script", "img", "iframe", "object", "embed"].contains(&name);
        if forbidden || attributes.iter().any(is_strange) {
            return Some(format!("<{name} {attributes:?}>"));
        }
    }
    None
}

#[test]
fn what_breaks_out_is_seen() {
    for bad in [
        "<p><script>x</script>",
        "<a href=\"javascript:x\">",
        "<i title=\"\" onfocus=x>",
        "<b x=\"1\" onclick>",
        "<img>",
    ] {
        assert!(broken_out(bad).is_some(), "{bad}");
    }
    for good in [
        "a \" onfocus=x",
        "<p title=\"&quot; onfocus=x\">onclick=</p>",
        "&lt;img&gt;",
        "<br/><a href=\"/x?q=javascript:\">",
    ] {
        assert_eq!(broken_out(good), None);
    }
}

#[tokio::test]
async fn no_text_of_telemetry_becomes_markup_on_any_page() {
    let mut shown = 0;
    for payload in PAYLOADS {
        let options = Options { clock: Arc::new(Noon), ..Options::default() };
        let app = router(Arc::new(Hostile(payload)), options);
        for path in paths() {
            let response = app.clone().oneshot(Request::get(&path).body(Body::empty()).unwrap()).await.unwrap();
            let bytes = response.into_body().collect().await.unwrap().to_bytes();
            let html = String::from_utf8(bytes.to_vec()).unwrap();
            assert_eq!(broken_out(&html), None, "{path} with {payload}");
            shown += usize::from(main(&html).contains("alert(1)"));
        }
    }
    assert!(shown > 100, "{shown} pages showed a payload as text");
}

/// Nor does what stands in the address.
#[tokio::test]
async fn no_text_of_an_address_becomes_markup() {
    let app = app(Fleet::Busy);
    let names = [
        "region", "model", "tenant", "engine", "q", "status", "metric", "by", "at", "words", "range", "from", "page",
        "why",
    ];
    for payload in [PAYLOADS[1], PAYLOADS[4], PAYLOADS[6]] {
        let value = crate::urlstate::encode(payload);
        let fields = ["/", "/latency", "/requests", "/cost", "/logs", "/sql", "/go", "/slo", "/share"].into_iter();
        let fields = fields.flat_map(|path| names.map(|name| format!("{path}?{name}={value}")));
        let places = ["slo", "region", "node"].map(|place| path(&[place, payload]));
        for path in fields.chain(places) {
            let response = app.clone().oneshot(Request::get(&path).body(Body::empty()).unwrap()).await.unwrap();
            let bytes = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(broken_out(&String::from_utf8_lossy(&bytes)), None, "{path}");
        }
    }
}

/// Files are those of the bundle and none above it, however the way up is spelled.
#[tokio::test]
async fn no_path_climbs_out_of_the_bundle() {
    let dir = tempfile::tempdir().unwrap();
    let bundle = dir.path().join("bundle");
    std::fs::create_dir(&bundle).unwrap();
    std::fs::write(dir.path().join("secret.txt"), "nobody's business").unwrap();
    for file in ["start.js", "ui.js", "ui.wasm"] {
        std::fs::write(bundle.join(file), "export {}").unwrap();
    }
    let exports = serde_json::to_string(&islands::names()).unwrap();
    let manifest = format!(r#"{{"entry":"start.js","glue":"ui.js","module":"ui.wasm","exports":{exports}}}"#);
    std::fs::write(bundle.join("manifest.json"), manifest).unwrap();
    let options = Options { bundle: Some(bundle), clock: Arc::new(Noon), ..Options::default() };
    let app = router(Arc::new(Fleet::Busy), options);
    let get = |path: String| {
        let app = app.clone();
        async move {
            let response = app.oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
            (response.status(), response.into_body().collect().await.unwrap().to_bytes())
        }
    };
    assert_eq!(get("/assets/web/start.js".to_owned()).await.0, StatusCode::OK, "the bundle is served");
    for up in ["..", "%2e%2e", "%2E%2E", ".%2e", "..%2f", "..%5c", "%252e%252e", "....//", "..;", "..%00"] {
        for path in [
            format!("/assets/web/{up}/secret.txt"),
            format!("/assets/{up}/secret.txt"),
            format!("/assets/web/x/{up}/{up}/secret.txt"),
        ] {
            let (status, body) = get(path.clone()).await;
            assert!(status.is_client_error(), "{path}: {status}");
            assert!(!body.windows(6).any(|part| part == b"nobody"), "{path}");
        }
    }
    for path in [
        format!("/assets/web/{}", dir.path().join("secret.txt").display()),
        "/assets/web//etc/passwd".to_owned(),
        "/assets/web/%2fetc%2fpasswd".to_owned(),
    ] {
        assert!(get(path.clone()).await.0.is_client_error(), "{path}");
    }
}
