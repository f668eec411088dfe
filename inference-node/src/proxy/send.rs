//! Sends a call to the engine, and says what was wrong where no answer came.

use std::error::Error;

use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::http::request::Parts;

use super::Front;
use crate::serve::Fault;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// Nobody listens, or no connection comes about.
    Unreachable,
    /// The connection ended before the head of an answer had come.
    Closed,
    /// What came is no HTTP.
    Garbled,
    /// The head of the answer is longer, or has more lines, than is read.
    LongHead,
    Silent,
}

impl Front {
    /// The head of the engine's answer.
    ///
    /// # Errors
    /// What came instead.
    pub(super) async fn send(
        &self,
        asked: &Parts,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<reqwest::Response, Unanswered> {
        let path = asked.uri.path_and_query().map_or("/", |path| path.as_str());
        let request = self.client.request(asked.method.clone(), format!("{}{path}", self.base));
        let request = request.headers(headers).body(body);
        match tokio::time::timeout(self.config.idle_timeout, request.send()).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                let unanswered = if error.is_connect() { Unanswered::Unreachable } else { Unanswered::of(&error) };
                tracing::warn!(error = service::error::chain(&error), "{}", unanswered.message());
                Err(unanswered)
            }
            Err(_) => Err(Unanswered::Silent),
        }
    }
}

impl Unanswered {
    /// What an error says of a connection that had come about.
    fn of(error: &(dyn Error + 'static)) -> Self {
        match of_http(error) {
            Some(error) if error.is_parse_too_large() => Self::LongHead,
            Some(error) if error.is_parse() => Self::Garbled,
            _ => Self::Closed,
        }
    }

    /// As the record has it.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Unreachable | Self::Closed => "upstream_unreachable",
            Self::Garbled | Self::LongHead => "engine_error",
            Self::Silent => "timeout",
        }
    }

    /// For people.
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::Unreachable => "the engine cannot be reached",
            Self::Closed => "the engine closed the connection before it answered",
            Self::Garbled => "the engine's answer is no HTTP",
            Self::LongHead => "the head of the engine's answer is too long",
            Self::Silent => "the engine did not answer in time",
        }
    }

    pub(super) fn fault(self) -> Fault {
        Fault::upstream(self.message())
    }
}

/// The error of HTTP itself among the causes of an error: there is none where no connection came about.
pub(super) fn of_http<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a hyper::Error> {
    std::iter::successors(Some(error), |error| (*error).source()).find_map(|error| error.downcast_ref())
}
