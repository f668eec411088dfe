//! How an error leaves over gRPC.

use tonic::{Code, Status};

use super::{Error, Kind};

impl Kind {
    /// The gRPC code of this kind.
    #[must_use]
    pub fn grpc_code(self) -> Code {
        match self {
            Self::Invalid => Code::InvalidArgument,
            Self::TooLarge | Self::Throttled { .. } => Code::ResourceExhausted,
            Self::Unauthenticated => Code::Unauthenticated,
            Self::Denied => Code::PermissionDenied,
            Self::NotFound => Code::NotFound,
            Self::Conflict => Code::Aborted,
            Self::Overloaded { .. } | Self::Unavailable { .. } => Code::Unavailable,
            Self::Corrupt => Code::DataLoss,
            Self::Cancelled => Code::Cancelled,
            Self::Internal => Code::Internal,
        }
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let message = match error.hint() {
            Some(hint) => format!("{}; {hint}", error.message()),
            None => error.message().to_owned(),
        };
        Self::new(error.kind().grpc_code(), message)
    }
}
