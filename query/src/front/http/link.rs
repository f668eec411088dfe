//! A statement in a link: what a page offers as a file, and what a spreadsheet or a notebook reads by its address.

use axum::{
    http::{HeaderValue, header},
    response::Response,
};
use telemetry::contract::{ApiError, SqlRequest, read_versions};

use super::Format;

/// Reads `q`, `format` (parquet, arrow, csv, ndjson or json; json if none is named) and `v`, the versions at which tables are read
/// (`requests:812,tokens:90`).
///
/// # Errors
/// `invalid`, with what is wrong and how a link is written.
pub(super) fn parse(query: &str) -> Result<(Format, SqlRequest), ApiError> {
    let mut request = SqlRequest::default();
    let mut format = Format::Json;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = decoded(value).ok_or_else(|| invalid(format!("`{name}` is not percent-encoded UTF-8")))?;
        match name {
            "q" => request.sql = value,
            "format" => format = named(&value)?,
            "v" => {
                let wrong = |part| invalid(format!("{part} is no version of a table"));
                request.version = read_versions(&value).map_err(wrong)?;
            }
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

/// A value of a query string, as forms write it.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            // Each a digit: a number may begin with a sign, an escape may not.
            b'%' => digit(rest.next()?)? << 4 | digit(rest.next()?)?,
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

fn digit(letter: u8) -> Option<u8> {
    char::from(letter).to_digit(16).and_then(|value| u8::try_from(value).ok())
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
        for wrong in [
            "",
            "q=+",
            "q=1&format=xls",
            "q=1&v=requests",
            "q=%zz",
            "q=%+1",
            "q=%C3",
            "sql=SELECT+1",
            "q=1&q2",
            "q=1&v=requests:+1",
        ] {
            assert_eq!(parse(wrong).map_err(|error| error.kind).err().as_deref(), Some("invalid"), "{wrong}");
        }
    }
}
