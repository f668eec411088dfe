//! `tokenwatt sql`: one statement, answered by a server or by this process on the lake itself.

mod table;

use std::io::{IsTerminal, Read};

use axum::body::Body;
use axum::http::{Request, header};
use clap::{Args, ValueEnum};
use service::{Deps, Error};
use telemetry::contract::{ApiError, SqlAnswer, SqlRequest};
use tower::ServiceExt;

use crate::cli::Common;
use crate::failure::Failure;
use crate::print;
use crate::remote::Remote;
use crate::settings;

#[derive(Args)]
pub(crate) struct Flags {
    /// The statement; `-` reads it from standard input
    sql: String,
    /// Ask the query service at this address instead of reading --data
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Rows after which the answer is cut
    #[arg(long, value_name = "N")]
    max_rows: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Aligned text
    Table,
    /// Comma-separated values with a header
    Csv,
    /// One JSON document with columns, rows, freshness and version
    Json,
    /// One JSON object a line
    Ndjson,
    /// Arrow IPC stream
    Arrow,
    /// Parquet file
    Parquet,
}

impl Format {
    /// Media type asked for; a table is made from JSON.
    fn accept(self) -> &'static str {
        match self {
            Self::Table | Self::Json => "application/json",
            Self::Csv => "text/csv",
            Self::Ndjson => "application/x-ndjson",
            Self::Arrow => "application/vnd.apache.arrow.stream",
            Self::Parquet => "application/vnd.apache.parquet",
        }
    }
}

pub(crate) async fn run(common: &Common, flags: &Flags) -> Result<(), Failure> {
    if matches!(flags.format, Format::Arrow | Format::Parquet) && std::io::stdout().is_terminal() {
        let error = Error::invalid("binary output is not for a terminal").with_hint("redirect it to a file");
        return Err(error.into());
    }
    let request = SqlRequest { sql: statement(&flags.sql)?, max_rows: flags.max_rows, ..SqlRequest::default() };
    let body = ask(common, flags.server.as_deref(), &request, flags.format.accept()).await?;
    if flags.format == Format::Table {
        let answer: SqlAnswer = parse(&body)?;
        print::bytes(table::render(&answer).as_bytes());
    } else {
        print::bytes(&body);
    }
    if flags.format == Format::Json {
        print::bytes(b"\n");
    }
    Ok(())
}

/// The answer to one statement of ours.
pub(super) async fn answer(common: &Common, server: Option<&str>, sql: &str) -> Result<SqlAnswer, Failure> {
    let request = SqlRequest { sql: sql.to_owned(), ..SqlRequest::default() };
    Ok(parse(&ask(common, server, &request, Format::Json.accept()).await?)?)
}

/// Asks the server, or this process on the lake itself.
async fn ask(
    common: &Common,
    server: Option<&str>,
    request: &SqlRequest,
    accept: &str,
) -> Result<axum::body::Bytes, Failure> {
    let config = settings::load_quietly(common)?.config;
    let Some(server) = server else { return embedded(&config, request, accept).await };
    let response = Remote::new(server, config.ui.token.clone())?.ask(request, accept).await?;
    Ok(response.bytes().await.map_err(|error| Error::unavailable("read the answer").with_source(error))?)
}

/// Answers through the same front a client would reach over HTTP, without a port.
async fn embedded(config: &settings::Config, request: &SqlRequest, accept: &str) -> Result<axum::body::Bytes, Failure> {
    let deps = Deps::system();
    let lakes = config.lakes_to_read(&deps).await?;
    // The blocks on disk belong to the server that may be running beside.
    let settings = query::Config { cache_disk_bytes: 0, ..config.query() };
    let query = query::build(settings, lakes, deps).await?;
    let body = serde_json::to_vec(request).map_err(|error| Error::internal("encode the request").with_source(error))?;
    let request = Request::post("/api/v1/sql")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, accept)
        .body(Body::from(body))
        .map_err(|error| Error::internal("encode the request").with_source(error))?;
    let response = match query.router().oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let good = response.status().is_success();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX)
        .await
        .map_err(|error| Error::internal("read the answer").with_source(error))?;
    if good { Ok(body) } else { Err(crate::remote::refusal(&body).unwrap_or_else(unreadable).into()) }
}

fn statement(text: &str) -> Result<String, Error> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut sql = String::new();
    std::io::stdin()
        .read_to_string(&mut sql)
        .map_err(|error| Error::invalid("read the statement from standard input").with_source(error))?;
    Ok(sql)
}

fn parse(body: &[u8]) -> Result<SqlAnswer, Error> {
    serde_json::from_slice(body).map_err(|error| Error::corrupt("the answer is not understood").with_source(error))
}

fn unreadable() -> ApiError {
    ApiError { kind: "internal".to_owned(), message: "the query failed without saying why".to_owned(), hint: None }
}
