//! `POST /api/v1/sql`: a statement as JSON (`{"sql": …, "params": {…}}`) or as plain text; `Accept` chooses the answer.
//! `GET /api/v1/sql?q=…&format=parquet&v=requests:812`: the same for a link, whose answer is kept as a file.
//! `DELETE /api/v1/queries/{id}`: stops one that runs.

mod link;
mod stream;

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Extension, Router,
    body::Bytes,
    extract::{Path, RawQuery, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{delete, post},
};
use serde_json::json;
use service::principal::{Principal, Principals, Role};
use telemetry::contract::{ApiError, READER_HEADER, SqlRequest};

use crate::{
    answer,
    encode::{self, Encoder},
    error,
    execute::Engine,
    reader::Reader,
};

/// Largest statement with its parameters.
const BODY_BYTES_MAX: usize = 1 << 20;

/// The route.
pub(crate) fn router(engine: Arc<Engine>) -> Router {
    Router::new()
        .route("/api/v1/sql", post(sql).get(linked))
        .route("/api/v1/queries/{id}", delete(cancel))
        .route("/api/v1/alerts", post(alerts))
        .layer(axum::extract::DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(engine)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json,
    Ndjson,
    Csv,
    Arrow,
    Parquet,
}

/// The principal that the guard let through; none where there is no guard.
type Caller = Option<Extension<Arc<Principal>>>;

fn reader(caller: Caller) -> Arc<Reader> {
    Arc::new(Reader::from(caller.as_ref().map(|Extension(principal)| principal)))
}

/// The reader with whose rights an answer is given: the caller, or whom one that sees everything names in its place.
fn on_behalf(principals: &Principals, caller: Caller, headers: &HeaderMap) -> Result<Arc<Reader>, ApiError> {
    let own = reader(caller);
    let Some(name) = headers.get(READER_HEADER) else { return Ok(own) };
    // A name that is no text is not ignored: it would be answered with more rights than were asked for.
    let name = String::from_utf8_lossy(name.as_bytes());
    if name == own.name() {
        return Ok(own);
    }
    let denied =
        |message: String, hint: &str| ApiError { kind: "denied".to_owned(), message, hint: Some(hint.to_owned()) };
    if !own.sees_everything() {
        let message = format!("`{}` may not ask for `{name}`", own.name());
        return Err(denied(message, "only who sees everything asks with the rights of others"));
    }
    let found = principals.named(&name, Role::Reader).ok_or_else(|| {
        denied(
            format!("no reader is called `{name}` here"),
            "give the dashboard and the query service the same [[principal]] tables",
        )
    })?;
    Ok(Arc::new(Reader::of(&found).through("dashboard")))
}

async fn sql(State(engine): State<Arc<Engine>>, caller: Caller, headers: HeaderMap, body: Bytes) -> Response {
    let answered = async {
        let reader = on_behalf(&engine.deps.principals, caller, &headers)?;
        answered(&engine, &reader, (Format::accepted(&headers)?, request(&headers, &body)?)).await
    };
    answered.await.unwrap_or_else(|error| refusal(&error))
}

/// A statement in a link. A browser says whether another site's page follows it (Fetch Metadata); then it is not run.
async fn linked(
    State(engine): State<Arc<Engine>>,
    caller: Caller,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    if headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site") {
        let message = "statements are not taken from pages of other sites".to_owned();
        return refusal(&ApiError { kind: "denied".to_owned(), message, hint: None });
    }
    let answered = async {
        let (format, request) = link::parse(&query.unwrap_or_default())?;
        let reader = on_behalf(&engine.deps.principals, caller, &headers)?;
        let answer = answered(&engine, &reader, (format, request)).await?;
        Ok::<_, ApiError>(link::as_file(answer, format))
    };
    answered.await.unwrap_or_else(|error| refusal(&error))
}

/// Notifications are written, and this port only reads.
async fn alerts() -> Response {
    refusal(&ApiError {
        kind: "not_found".to_owned(),
        message: "alerts are taken by a collector".to_owned(),
        hint: Some("have Alertmanager post to /api/v1/alerts on the port of OTLP/HTTP, 4318".to_owned()),
    })
}

/// Tells a running query to stop; `system.queries` lists them.
async fn cancel(State(engine): State<Arc<Engine>>, caller: Caller, Path(id): Path<String>) -> Response {
    let reader = reader(caller);
    let is_running = id.parse().is_ok_and(|id| engine.running().cancel(id, &reader));
    if is_running {
        return StatusCode::NO_CONTENT.into_response();
    }
    refusal(&ApiError {
        kind: "not_found".to_owned(),
        message: format!("no query {id} runs"),
        hint: Some("`SELECT id, sql FROM system.queries` lists those that do".to_owned()),
    })
}

async fn answered(
    engine: &Arc<Engine>,
    reader: &Arc<Reader>,
    (format, request): (Format, SqlRequest),
) -> Result<Response, ApiError> {
    let rows_max = engine.config.rows(request.max_rows);
    let opened = engine.open(request, reader).await?;
    let (version, served_by) = (opened.version.clone(), opened.served_by.clone());
    let notice = opened.notice.clone();
    let mut notes = Notes { id: opened.id, version, served_by, notice, rows_max, truncated: None };
    let body = match format {
        Format::Json => axum::Json(answer::json(opened.collect().await?)).into_response(),
        Format::Parquet => {
            let collected = opened.collect().await?;
            notes.truncated = Some(collected.truncated);
            let file = encode::parquet(&collected.schema, &collected.batches);
            file.map_err(|error| error::to_api(&error))?.into_response()
        }
        Format::Ndjson => stream::body(Encoder::Ndjson, opened.batches, &mut notes.truncated).await?,
        Format::Csv => stream::body(Encoder::Csv(opened.schema), opened.batches, &mut notes.truncated).await?,
        Format::Arrow => {
            let encoder = Encoder::arrow(&opened.schema).map_err(|error| error::to_api(&error))?;
            stream::body(encoder, opened.batches, &mut notes.truncated).await?
        }
    };
    Ok(notes.on(body, format))
}

/// What JSON answers say of themselves, as headers for the others.
struct Notes {
    id: u64,
    version: BTreeMap<String, i64>,
    served_by: String,
    notice: Option<String>,
    rows_max: usize,
    /// Not known of a long answer when it begins: one of as many rows as it may have was cut there.
    truncated: Option<bool>,
}

impl Notes {
    fn on(self, mut response: Response, format: Format) -> Response {
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
        let mut note = |name: &'static str, value: String| {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(name, value);
            }
        };
        note("x-tokenwatt-query", self.id.to_string());
        note("x-tokenwatt-rows-max", self.rows_max.to_string());
        if let Some(truncated) = self.truncated {
            note("x-tokenwatt-truncated", truncated.to_string());
        }
        note("x-tokenwatt-version", serde_json::to_string(&self.version).unwrap_or_default());
        note("x-tokenwatt-served-by", self.served_by);
        if let Some(notice) = self.notice {
            note("x-tokenwatt-notice", notice);
        }
        response
    }
}

fn request(headers: &HeaderMap, body: &[u8]) -> Result<SqlRequest, ApiError> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("application/json");
    let invalid = |message: String| ApiError {
        kind: "invalid".to_owned(),
        message,
        hint: Some(r#"send {"sql": "SELECT …"} as application/json, or the statement as text/plain"#.to_owned()),
    };
    match kind.split(';').next().map(str::trim) {
        Some("application/json") => {
            serde_json::from_slice(body).map_err(|error| invalid(format!("the body is not a request: {error}")))
        }
        Some("text/plain" | "application/sql") => match std::str::from_utf8(body) {
            Ok(sql) => Ok(SqlRequest { sql: sql.to_owned(), ..SqlRequest::default() }),
            Err(_) => Err(invalid("the statement is not UTF-8".to_owned())),
        },
        _ => Err(invalid(format!("content type {kind} is not understood"))),
    }
}

impl Format {
    /// The first type in `Accept` that we can give; JSON where nothing is asked.
    fn accepted(headers: &HeaderMap) -> Result<Format, ApiError> {
        let Some(accept) = headers.get(header::ACCEPT) else { return Ok(Format::Json) };
        let accept = accept.to_str().unwrap_or_default();
        let types = accept.split(',').map(|range| range.split(';').next().unwrap_or_default().trim());
        types.filter_map(Format::of).next().ok_or_else(|| ApiError {
            kind: "invalid".to_owned(),
            message: format!("no answer can be given as {accept}"),
            hint: Some(
                "accept application/json, application/x-ndjson, text/csv, application/vnd.apache.arrow.stream or \
                 application/vnd.apache.parquet"
                    .to_owned(),
            ),
        })
    }

    fn of(range: &str) -> Option<Format> {
        match range {
            "" | "*/*" | "application/*" | "application/json" => Some(Format::Json),
            "application/x-ndjson" | "application/jsonl" => Some(Format::Ndjson),
            "text/csv" | "text/*" => Some(Format::Csv),
            "application/vnd.apache.arrow.stream" => Some(Format::Arrow),
            "application/vnd.apache.parquet" => Some(Format::Parquet),
            _ => None,
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::Ndjson => "application/x-ndjson",
            Format::Csv => "text/csv; charset=utf-8; header=present",
            Format::Arrow => "application/vnd.apache.arrow.stream",
            Format::Parquet => "application/vnd.apache.parquet",
        }
    }
}

fn refusal(error: &ApiError) -> Response {
    let status = match error.kind.as_str() {
        "invalid" => StatusCode::BAD_REQUEST,
        "denied" => StatusCode::FORBIDDEN,
        "not_found" => StatusCode::NOT_FOUND,
        "too_large" => StatusCode::PAYLOAD_TOO_LARGE,
        "overloaded" | "unavailable" => StatusCode::SERVICE_UNAVAILABLE,
        "cancelled" => StatusCode::CONFLICT,
        "timeout" => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut response = (status, axum::Json(json!({ "error": error }))).into_response();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("2"));
    }
    response
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::Extension;
    use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
    use service::principal::{Principal, Principals, Role};
    use telemetry::contract::READER_HEADER;

    use super::{Format, on_behalf, request};
    use crate::reader::Seen;

    fn with(name: HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn accept_chooses_the_first_form_we_have() {
        let chosen = |accept| Format::accepted(&with(header::ACCEPT, accept)).map_err(|error| error.kind);
        assert_eq!(Format::accepted(&HeaderMap::new()).ok(), Some(Format::Json));
        assert_eq!(chosen("image/png, text/csv;q=0.9"), Ok(Format::Csv));
        assert_eq!(chosen("application/vnd.apache.parquet"), Ok(Format::Parquet));
        assert_eq!(chosen("*/*"), Ok(Format::Json));
        assert_eq!(chosen("image/png"), Err("invalid".to_owned()));
    }

    #[test]
    fn a_statement_comes_as_json_or_as_text() {
        let json = request(&HeaderMap::new(), br#"{"sql": "SELECT 1", "params": {"n": 3}}"#).expect("a request");
        assert_eq!((json.sql.as_str(), json.params["n"].as_i64()), ("SELECT 1", Some(3)));
        let text = request(&with(header::CONTENT_TYPE, "text/plain; charset=utf-8"), b"SELECT 2").expect("a request");
        assert_eq!(text.sql, "SELECT 2");
        for (kind, body) in [("application/json", "SELECT 1"), ("application/json", r#"{"sq": 1}"#), ("image/png", "x")]
        {
            let error = request(&with(header::CONTENT_TYPE, kind), body.as_bytes()).expect_err("refused");
            assert_eq!(error.kind, "invalid");
        }
    }

    fn principal(name: &str, role: Role, tenants: &[&str]) -> Principal {
        Principal {
            name: name.to_owned(),
            role,
            token_sha256: None,
            scram: None,
            expires: None,
            certificate: None,
            tenants: tenants.iter().map(|tenant| (*tenant).to_owned()).collect(),
            regions: vec!["*".to_owned()],
            infrastructure: None,
            items_per_s: None,
            bytes_per_s: None,
            burst_s: 10,
        }
    }

    /// Rights are only ever narrowed: by one who has them all, to those of a reader that is known here.
    #[test]
    fn who_sees_everything_may_ask_with_the_rights_of_others_and_nobody_else() {
        let known = [
            principal("dashboard", Role::Reader, &["*"]),
            principal("acme", Role::Reader, &["acme"]),
            principal("zeta", Role::Reader, &["zeta"]),
            principal("agent", Role::Writer, &["*"]),
        ];
        let principals = Principals::new(&known, &service::clock::system());
        let asked = |by: Option<usize>, named: &[u8]| {
            let caller = by.map(|at| Extension(Arc::new(known[at].clone())));
            let value = HeaderValue::from_bytes(named).expect("a header");
            let headers = HeaderMap::from_iter([(HeaderName::from_static(READER_HEADER), value)]);
            let reader = on_behalf(&principals, caller, &headers);
            reader.map(|reader| (reader.name().to_owned(), reader.front(), reader.tenants().clone()))
        };
        let only = |tenant: &str| Seen::Only(vec![tenant.to_owned()]);
        assert_eq!(asked(Some(0), b"acme").ok(), Some(("acme".to_owned(), "dashboard", only("acme"))));
        assert_eq!(asked(Some(0), b"dashboard").ok(), Some(("dashboard".to_owned(), "http", Seen::All)));
        assert_eq!(asked(Some(1), b"acme").ok(), Some(("acme".to_owned(), "http", only("acme"))));
        for (by, named) in [
            (Some(1), &b"zeta"[..]),
            (Some(1), b"dashboard"),
            (Some(0), b"agent"),
            (Some(0), b"nobody"),
            (Some(0), b"?"),
            (Some(0), b""),
            (Some(0), b"\xff\xfe"),
            (None, b"ghost"),
        ] {
            let kind = asked(by, named).map_err(|error| error.kind);
            assert_eq!(kind, Err("denied".to_owned()), "{by:?} {named:?}");
        }
    }
}
