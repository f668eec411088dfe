//! Failures in OpenAI's shape.

use std::borrow::Cow;
use std::fmt::Display;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use telemetry::openai::{ApiFault, ErrorBody};

use super::BODY_MAX;
use crate::queue::Event;

/// A refused or failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    status: StatusCode,
    body: ErrorBody,
    /// Whether the same call may succeed in a second.
    again: bool,
}

/// Longest message, in characters: what a client wrote is told back in it, however long that was.
const MESSAGE_MAX: usize = 400;
/// Longest name that is told back.
const NAME_MAX: usize = 100;

/// The beginning of a text, with a mark where it was longer.
fn cut(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

impl Fault {
    fn new(status: StatusCode, kind: &str, message: impl Into<String>) -> Self {
        let message: String = message.into();
        let message = cut(&message, MESSAGE_MAX).into_owned();
        let error = ApiFault { message, kind: kind.to_owned(), param: None, code: None };
        Self { status, body: ErrorBody { error }, again: false }
    }

    fn request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", message)
    }

    fn with_param(mut self, param: &str) -> Self {
        self.body.error.param = Some(param.to_owned());
        self
    }

    fn with_code(mut self, code: &str) -> Self {
        self.body.error.code = Some(code.to_owned());
        self
    }

    /// A field has a value that cannot be.
    pub(crate) fn invalid(param: &str, message: impl Into<String>) -> Self {
        Self::request(message).with_param(param)
    }

    /// A field asks for something that this node does not do.
    pub(crate) fn unsupported(param: &str, what: &str) -> Self {
        Self::request(format!("{what} is not supported by this node"))
            .with_param(param)
            .with_code("unsupported_parameter")
    }

    /// The body is no JSON of the right shape.
    pub(crate) fn body(error: &serde_json::Error) -> Self {
        Self::request(format!("the request body cannot be read: {error}"))
    }

    /// The body did not arrive.
    pub(crate) fn unread(error: &impl Display) -> Self {
        Self::request(format!("the request body cannot be read: {error}"))
    }

    /// The body is longer than [`BODY_MAX`].
    pub(crate) fn too_large() -> Self {
        let message = format!("the request body is longer than the {} MiB that are taken here", BODY_MAX >> 20);
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "invalid_request_error", message).with_code("request_too_large")
    }

    /// The prompt and the tokens asked for are longer than the model's context; `prompt` says how many it has, such as `at least 9`.
    pub(crate) fn too_long(param: &str, prompt: &str, output: Option<u32>, longest: u32) -> Self {
        let asked = output.map_or_else(String::new, |output| format!(" and {output} output tokens"));
        let message =
            format!("the model's context holds {longest} tokens, the request needs {prompt} prompt tokens{asked}");
        Self::invalid(param, message).with_code("context_length_exceeded")
    }

    /// The prompt is longer than what the model was compiled for, though it may go on beyond that.
    pub(crate) fn prompt_too_long(param: &str, prompt: &str, longest: u32) -> Self {
        let message = format!("the model takes prompts of up to {longest} tokens, the request's has {prompt}");
        Self::invalid(param, message).with_code("context_length_exceeded")
    }

    /// The prompt has no token at all.
    pub(crate) fn no_prompt(param: &str) -> Self {
        Self::invalid(param, "the prompt is empty; the model needs at least one token to go on from")
    }

    /// Another model is served here.
    pub(crate) fn no_such_model(model: &str) -> Self {
        let message = format!("the model `{}` does not exist on this node", cut(model, NAME_MAX));
        Self::new(StatusCode::NOT_FOUND, "invalid_request_error", message)
            .with_param("model")
            .with_code("model_not_found")
    }

    /// A path of OpenAI's API for which there is no engine here.
    pub(crate) fn no_such_api(what: &str) -> Self {
        Self::request(format!("{what} are not supported by this node")).with_code("unsupported_endpoint")
    }

    /// No such path.
    pub(crate) fn no_such_route() -> Self {
        Self::new(StatusCode::NOT_FOUND, "invalid_request_error", "no such path")
    }

    /// The path exists, with another method.
    pub(crate) fn wrong_method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "invalid_request_error", "the path takes another method")
    }

    /// All slots and places in the queue are taken.
    pub(crate) fn overloaded() -> Self {
        let message = "the node is full; try again in a second";
        let fault = Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", message);
        Self { again: true, ..fault.with_code("queue_full") }
    }

    /// The node is going down.
    pub(crate) fn closing() -> Self {
        let message = "the node takes no more calls";
        let fault = Self::new(StatusCode::SERVICE_UNAVAILABLE, "server_error", message);
        Self { again: true, ..fault.with_code("shutting_down") }
    }

    /// The engine behind a proxy failed.
    pub(crate) fn upstream(message: &str) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "server_error", message).with_code("upstream_error")
    }

    /// The proxy's engine is the proxy itself, or leads to it.
    pub(crate) fn circle() -> Self {
        let message = "the call has come back to this proxy: node.engine.proxy.upstream leads to the proxy itself";
        Self::new(StatusCode::LOOP_DETECTED, "server_error", message).with_code("loop_detected")
    }

    /// The call's deadline passed before it was complete.
    pub(crate) fn expired() -> Self {
        let message = "the call's deadline passed";
        Self::new(StatusCode::GATEWAY_TIMEOUT, "server_error", message).with_code("deadline_exceeded")
    }

    /// What ended a call before it was complete.
    pub(crate) fn ended(event: Event) -> Self {
        match event {
            Event::Expired => Self::expired(),
            Event::Failed(message) => Self::internal(message),
            Event::Text { .. } | Event::End { .. } => Self::internal("the call ended"),
        }
    }

    /// A fault of ours.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", message)
    }

    /// What went wrong, for people.
    pub(crate) fn message(&self) -> &str {
        &self.body.error.message
    }

    /// Its place among HTTP's statuses.
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// As the body of an answer or a frame of a stream.
    pub(crate) fn into_body(self) -> ErrorBody {
        self.body
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body)).into_response();
        if self.again {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
