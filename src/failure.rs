//! How the process ends when something is wrong: an error, and an exit code that scripts can tell apart.

use std::process::ExitCode;

use service::{Error, Kind};

/// Usage or configuration is wrong (`EX_USAGE` of sysexits.h).
pub(crate) const USAGE: u8 = 64;
/// Data cannot be read as what it should be (`EX_DATAERR`).
const DATA: u8 = 65;
/// Something needed is not there (`EX_NOINPUT`).
const NO_INPUT: u8 = 66;
/// Something needed is taken or does not answer (`EX_UNAVAILABLE`).
const UNAVAILABLE: u8 = 69;
/// A fault of ours (`EX_SOFTWARE`).
const SOFTWARE: u8 = 70;
/// A file or directory cannot be made (`EX_CANTCREAT`).
pub(crate) const CANNOT_CREATE: u8 = 73;
/// Input or output failed, or not everything was drained (`EX_IOERR`).
pub(crate) const IO: u8 = 74;
/// No right to do it (`EX_NOPERM`).
const NO_PERMISSION: u8 = 77;

/// A signal came before the work was done: 128 + SIGINT, as shells count.
pub(crate) const INTERRUPTED: u8 = 130;

/// An error and the code the process ends with.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) error: Error,
}

impl Failure {
    pub(crate) fn new(code: u8, error: Error) -> Self {
        Self { code, error }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            Kind::Invalid | Kind::TooLarge => USAGE,
            Kind::Corrupt => DATA,
            Kind::NotFound => NO_INPUT,
            Kind::Conflict | Kind::Overloaded { .. } | Kind::Throttled { .. } | Kind::Unavailable { .. } => UNAVAILABLE,
            Kind::Denied | Kind::Unauthenticated => NO_PERMISSION,
            Kind::Cancelled => INTERRUPTED,
            Kind::Internal => SOFTWARE,
        };
        Self { code, error }
    }
}

impl From<telemetry::contract::ApiError> for Failure {
    fn from(error: telemetry::contract::ApiError) -> Self {
        let kind = match error.kind.as_str() {
            "invalid" | "too_large" => Kind::Invalid,
            "denied" => Kind::Denied,
            "not_found" => Kind::NotFound,
            "overloaded" | "timeout" | "unavailable" => {
                Kind::Unavailable { retry_after: std::time::Duration::from_secs(1) }
            }
            _ => Kind::Internal,
        };
        let mut mapped = Error::new(kind, error.message);
        if let Some(hint) = error.hint {
            mapped = mapped.with_hint(hint);
        }
        mapped.into()
    }
}
