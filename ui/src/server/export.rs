//! Answers as files: what a panel or the SQL page shows, all of it.

use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use telemetry::contract::{ApiError, SqlAnswer};

use super::App;
use crate::panel::links;
use crate::urlstate::Fields;

/// Rows of a file at most; more are asked for over `/api/v1/sql`, which streams.
const ROWS: usize = 100_000;

/// The rows of a statement as CSV.
pub(super) async fn csv(State(app): State<App>, RawQuery(query): RawQuery) -> Response {
    let fields = Fields::parse(&query.unwrap_or_default());
    let Some(statement) = fields.long_text("q") else {
        return (StatusCode::BAD_REQUEST, "the field `q` holds a statement").into_response();
    };
    match app.asker.typed(&statement, links::versions(&fields), ROWS).await {
        Ok(answer) if answer.raw().truncated => {
            let words = format!("more than {ROWS} rows: ask for fewer, or over /api/v1/sql, which streams them");
            (StatusCode::PAYLOAD_TOO_LARGE, words).into_response()
        }
        Ok(answer) => {
            let headers = [
                (header::CONTENT_TYPE, "text/csv; charset=utf-8; header=present"),
                (header::CONTENT_DISPOSITION, "attachment; filename=\"tokenwatt.csv\""),
            ];
            (headers, written(answer.raw())).into_response()
        }
        Err(error) => (status(&error), error.message).into_response(),
    }
}

fn status(error: &ApiError) -> StatusCode {
    match error.kind.as_str() {
        "invalid" => StatusCode::BAD_REQUEST,
        "denied" => StatusCode::FORBIDDEN,
        "too_large" => StatusCode::PAYLOAD_TOO_LARGE,
        "overloaded" | "unavailable" => StatusCode::SERVICE_UNAVAILABLE,
        "timeout" => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// RFC 4180. An unknown value is nothing between its commas, an empty text is a pair of quotes.
fn written(answer: &SqlAnswer) -> String {
    let mut out = String::new();
    let names: Vec<String> = answer.columns.iter().map(|column| field(&Value::String(column.name.clone()))).collect();
    out.push_str(&names.join(","));
    out.push_str("\r\n");
    for row in &answer.rows {
        let fields: Vec<String> = row.iter().map(field).collect();
        out.push_str(&fields.join(","));
        out.push_str("\r\n");
    }
    out
}

/// What a spreadsheet would run: texts come from whoever sends telemetry. Decimals travel as texts, and stay numbers.
fn is_formula(text: &str) -> bool {
    text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err()
}

fn field(value: &Value) -> String {
    let text = match value {
        Value::Null => return String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let text = if is_formula(&text) { format!("'{text}") } else { text };
    if text.is_empty() || text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use telemetry::contract::AnswerColumn;

    use super::*;

    #[test]
    fn unknown_empty_and_awkward_values_are_told_apart() {
        let column = |name: &str| AnswerColumn { name: name.into(), kind: "VARCHAR".into(), unit: None, comment: None };
        let answer = SqlAnswer {
            columns: ["a", "b,c"].map(column).to_vec(),
            rows: vec![vec![json!(null), json!("")], vec![json!(1.5), json!("say \"hi\"\n")]],
            ..SqlAnswer::default()
        };
        for (text, expected) in
            [("=1+2", "'=1+2"), ("@SUM(A1)", "'@SUM(A1)"), ("-x", "'-x"), ("-1.250000", "-1.250000"), ("+4", "+4")]
        {
            assert_eq!(field(&json!(text)), expected);
        }
        assert_eq!(field(&json!("\t=1")), "'\t=1");
        assert_eq!(written(&answer), "a,\"b,c\"\r\n,\"\"\r\n1.5,\"say \"\"hi\"\"\n\"\r\n");
    }
}
