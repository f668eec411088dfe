//! What went wrong, in PostgreSQL's words: a severity, an SQLSTATE, a message, a hint.

use pgwire::messages::{
    PgWireBackendMessage,
    response::{ErrorResponse, NoticeResponse},
};
use telemetry::contract::ApiError;

/// An error on its way to the client.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    severity: &'static str,
    code: &'static str,
    message: String,
    hint: Option<String>,
}

impl Refusal {
    /// The statement fails; the connection goes on.
    pub(super) fn error(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { severity: "ERROR", code, message: message.into(), hint: None }
    }

    /// The connection ends.
    pub(super) fn fatal(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { severity: "FATAL", code, message: message.into(), hint: None }
    }

    pub(super) fn with_hint(self, hint: impl Into<String>) -> Refusal {
        Refusal { hint: Some(hint.into()), ..self }
    }

    /// Nobody is told whether it was the name or the password.
    pub(super) fn login(user: &str) -> Refusal {
        Refusal::fatal("28P01", format!("password authentication failed for user \"{user}\""))
            .with_hint("the user is a [[principal]] of role \"reader\", the password its token")
    }

    /// A statement that would change something.
    pub(super) fn read_only(what: &str) -> Refusal {
        Refusal::error("25006", format!("this interface only reads: {what} is refused"))
            .with_hint("rows arrive through the collector")
    }

    /// Whoever asked wants it no longer.
    pub(super) fn cancelled() -> Refusal {
        Refusal::error("57014", "the query was cancelled at the user's request")
    }

    /// The process ends.
    pub(super) fn shutdown() -> Refusal {
        Refusal::fatal("57P01", "the server is shutting down")
    }

    pub(super) fn is_fatal(&self) -> bool {
        self.severity == "FATAL"
    }

    #[cfg(test)]
    pub(super) fn code(&self) -> &'static str {
        self.code
    }

    /// The message that tells the client.
    pub(super) fn to_message(&self) -> PgWireBackendMessage {
        let mut fields = vec![
            (b'S', self.severity.to_owned()),
            (b'V', self.severity.to_owned()),
            (b'C', self.code.to_owned()),
            (b'M', plain(&self.message)),
        ];
        fields.extend(self.hint.as_deref().map(|hint| (b'H', plain(hint))));
        PgWireBackendMessage::ErrorResponse(ErrorResponse::new(fields))
    }
}

/// What is told beside an answer, which it is not the end of.
pub(super) fn notice(text: &str) -> PgWireBackendMessage {
    // warning
    let fields = [(b'S', "WARNING"), (b'V', "WARNING"), (b'C', "01000"), (b'M', text)];
    let fields = fields.map(|(field, value)| (field, plain(value))).to_vec();
    PgWireBackendMessage::NoticeResponse(NoticeResponse::new(fields))
}

/// Texts end at a zero byte on the wire.
fn plain(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Refusal {
        let code = sqlstate(&error.kind, &error.message);
        Refusal { severity: "ERROR", code, message: error.message, hint: error.hint }
    }
}

/// Names are PostgreSQL's, appendix A of its manual.
fn sqlstate(kind: &str, message: &str) -> &'static str {
    match kind {
        "invalid" => invalid(message),
        // read_only_sql_transaction, insufficient_privilege
        "denied" if message.contains("only reads") => "25006",
        "denied" => "42501",
        // undefined_object
        "not_found" => "42704",
        // out_of_memory
        "too_large" => "53200",
        // too_many_connections
        "overloaded" => "53300",
        // query_canceled
        "cancelled" | "timeout" => "57014",
        // io_error
        "unavailable" => "58030",
        // internal_error
        _ => "XX000",
    }
}

/// The engine tells these apart by their words only; `tests::the_engines_words_are_known` holds them to it.
fn invalid(message: &str) -> &'static str {
    let words: [(&str, &str); 11] = [
        ("sql parser error", "42601"),
        ("there is no statement", "42601"),
        ("one statement at a time", "42601"),
        // undefined_column
        ("No field named", "42703"),
        // ambiguous_column
        ("Ambiguous reference", "42702"),
        // undefined_function
        ("Invalid function", "42883"),
        ("No function matches", "42883"),
        // division_by_zero
        ("Divide by zero", "22012"),
        // invalid_text_representation
        ("Cannot cast string", "22P02"),
        ("Error parsing timestamp", "22007"),
        // feature_not_supported
        ("This feature is not implemented", "0A000"),
    ];
    // undefined_table
    if message.starts_with("table '") && message.contains("not found") {
        return "42P01";
    }
    let found = words.into_iter().find(|(word, _)| message.contains(word));
    // syntax_error_or_access_rule_violation
    found.map_or("42000", |(_, code)| code)
}
