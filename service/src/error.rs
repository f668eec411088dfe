//! One error for every seam: a kind that says what the caller must do, a message, a hint and the cause.
//!
//! [`Error`]'s `Display` never repeats its source; [`chain`] prints both, once, where the error is consumed.

mod grpc;
mod http;

use std::error::Error as StdError;
use std::fmt::{self, Display};
use std::time::Duration;

/// Result of everything that can fail at a seam.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller must do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The request or setting is wrong; sending it again will not help.
    Invalid,
    /// The request passes a size limit; send less.
    TooLarge,
    /// No credentials, or wrong ones.
    Unauthenticated,
    /// The credentials are good but do not allow this.
    Denied,
    /// The thing named does not exist.
    NotFound,
    /// Something else holds the resource, or the state has moved on.
    Conflict,
    /// The service has no room; come back after the given time.
    Overloaded {
        /// How long to wait before trying again.
        retry_after: Duration,
    },
    /// The caller used up its share; come back after the given time.
    Throttled {
        /// How long to wait before trying again.
        retry_after: Duration,
    },
    /// Something the service depends on does not answer; come back after the given time.
    Unavailable {
        /// How long to wait before trying again.
        retry_after: Duration,
    },
    /// Stored data cannot be read as what it should be.
    Corrupt,
    /// The work was stopped on request; not a failure.
    Cancelled,
    /// A fault of ours.
    Internal,
}

impl Kind {
    /// Stable lowercase name, as in API answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::TooLarge => "too_large",
            Self::Unauthenticated => "unauthenticated",
            Self::Denied => "denied",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Overloaded { .. } => "overloaded",
            Self::Throttled { .. } => "throttled",
            Self::Unavailable { .. } => "unavailable",
            Self::Corrupt => "corrupt",
            Self::Cancelled => "cancelled",
            Self::Internal => "internal",
        }
    }

    /// How long to wait before the same request may succeed; `None` when waiting does not help.
    #[must_use]
    pub fn retry_after(self) -> Option<Duration> {
        match self {
            Self::Overloaded { retry_after } | Self::Throttled { retry_after } | Self::Unavailable { retry_after } => {
                Some(retry_after)
            }
            _ => None,
        }
    }
}

/// An error at a seam between modules or services.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    message: String,
    hint: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// How long a caller is asked to wait when nothing better is known.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl Error {
    /// An error of `kind`; `message` says what failed, lowercase and without a full stop.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, source: None }
    }

    /// The cause. It is printed by [`chain`], not by `Display`.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What the reader can do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What the caller must do.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What failed, without the cause.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What the reader can do about it, if known.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The request or setting is wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, message)
    }

    /// The request passes a size limit.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(Kind::TooLarge, message)
    }

    /// The credentials do not allow this.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(Kind::Denied, message)
    }

    /// The thing named does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, message)
    }

    /// Something else holds the resource.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, message)
    }

    /// The service has no room for a second or so.
    pub fn overloaded(message: impl Into<String>) -> Self {
        Self::new(Kind::Overloaded { retry_after: RETRY_AFTER }, message)
    }

    /// Something the service depends on does not answer.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Kind::Unavailable { retry_after: RETRY_AFTER }, message)
    }

    /// Stored data cannot be read.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(Kind::Corrupt, message)
    }

    /// The work was stopped on request.
    pub fn cancelled(message: impl Into<String>) -> Self {
        Self::new(Kind::Cancelled, message)
    }

    /// A fault of ours.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message)
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

/// The error and all its causes in one line: `open segment 17: read frame: unexpected end of file`.
///
/// A cause whose text its parent already ends with is left out, since many libraries print theirs.
#[must_use]
pub fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(current) = cause {
        let next = current.to_string();
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = current.source();
    }
    text
}

#[cfg(test)]
mod tests;
