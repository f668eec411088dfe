//! A statement in a link: what a page offers as a file, and what a spreadsheet or a notebook reads by its address.

use std::collections::BTreeMap;

use axum::{
    http::{HeaderValue, header},
    response::Response,
};
use telemetry::contract::{ApiError, SqlRequest};

use super::Format;

/// Reads `q`, `format` (parquet, arrow, csv, ndjson or json; json if none is named) and `v`, the versions at which tables are read
/// (`requests:812,tokens:90`).
///
/// # Errors
/// `invalid`, with what is wrong and how a link is written.
pub(super) fn parse(query: &str) -> Result<(Format, SqlRequest), ApiError> {
    let mut request = SqlRequest::default();
    let mut format = Format::Json;
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        let value = decoded(value).ok_or_else(|| invalid(format!("`{name}` is not percent-encoded UTF-8")))?;
        match name {
            "q" => request.sql = value,
            "format" => format = named(&value)?,
            "v" => request.version = versions(&value)?,
            _ => return Err(invalid(format!("there is no field `{name}`"))),
        }
    }
    if request.sql.trim().is_empty() {
        return Err(invalid("the field `q` holds no statement".to_owned()));
    }
    Ok((format, request))
}

/// The answer as a download.
pub(super) fn as_file(mut answer: Response, format: Format) -> Response {
    let name = match format {
        Format::Json => "attachment; filename=\"tokenwatt.json\"",
        Format::Ndjson => "attachment; filename=\"tokenwatt.ndjson\"",
        Format::Csv => "attachment; filename=\"tokenwatt.csv\"",
        Format::Arrow => "attachment; filename=\"tokenwatt.arrows\"",
        Format::Parquet => "attachment; filename=\"tokenwatt.parquet\"",
    };
    answer.headers_mut().insert(header::CONTENT_DISPOSITION, HeaderValue::from_static(name));
    answer
}

fn invalid(message: String) -> ApiError {
    let hint = "write /api/v1/sql?q=SELECT+1&format=parquet; format is json, ndjson, csv, arrow or parquet, and v=requests:812 reads that version";
    ApiError { kind: "invalid".to_owned(), message, hint: Some(hint.to_owned()) }
}

fn named(text: &str) -> Result<Format, ApiError> {
    Ok(match text {
        "json" => Format::Json,
        "ndjson" => Format::Ndjson,
        "csv" => Format::Csv,
        "arrow" => Format::Arrow,
        "parquet" => Format::Parquet,
        other => return Err(invalid(format!("{other} is no format"))),
    })
}

fn versions(text: &str) -> Result<BTreeMap<String, i64>, ApiError> {
    let pin = |pin: &str| {
        let (table, version) = pin.rsplit_once(':')?;
        Some((table.to_owned(), version.parse().ok()?))
    };
    let pins = text.split(',').filter(|part| !part.is_empty());
    pins.map(|text| pin(text).ok_or_else(|| invalid(format!("{text} is no version of a table")))).collect()
}

/// A value of a query string, as forms write it.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_says_what_is_asked_at_which_version_and_as_what() {
        let (format, request) =
            parse("q=SELECT+'%C3%A9%26'&format=parquet&v=requests:812,eu.tokens:0").expect("a link");
        assert_eq!((format, request.sql.as_str()), (Format::Parquet, "SELECT 'é&'"));
        let pinned = [("requests".to_owned(), 812), ("eu.tokens".to_owned(), 0)];
        assert_eq!(request.version, pinned.into());
        for wrong in ["", "q=+", "q=1&format=xls", "q=1&v=requests", "q=%zz", "q=%C3", "sql=SELECT+1"] {
            assert_eq!(parse(wrong).map_err(|error| error.kind).err().as_deref(), Some("invalid"), "{wrong}");
        }
    }
}
