//! A body that is sent while its rows are made.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use futures::{StreamExt, stream};
use telemetry::contract::ApiError;

use crate::{encode::Encoder, error, execute::Batches};

/// Bytes made before the first is sent: an answer that is shorter is sent whole, and one that fails within them has a status.
const AHEAD_BYTES: usize = 1 << 20;

/// The rows as a body. A short one is whole, and says whether it was cut. A long one that fails ends before its end: the
/// connection is closed in the middle of it.
///
/// # Errors
/// What goes wrong before anything is sent.
pub(super) async fn body(
    mut encoder: Encoder,
    mut batches: Batches,
    truncated: &mut Option<bool>,
) -> Result<Response, ApiError> {
    let mut ahead = encoder.head();
    while ahead.len() < AHEAD_BYTES {
        match piece(&mut encoder, &mut batches).await? {
            Some(bytes) => ahead.extend(bytes),
            None => {
                *truncated = Some(batches.truncated());
                ahead.extend(encoder.end().map_err(|error| error::to_api(&error))?);
                return Ok(ahead.into_response());
            }
        }
    }
    let rest = stream::unfold(Some((encoder, batches)), rest);
    Ok(Body::from_stream(stream::iter([Ok(ahead)]).chain(rest)).into_response())
}

/// The next rows, or the end, and what is left then: nothing after the end or an error.
async fn rest(left: Option<(Encoder, Batches)>) -> Option<(Result<Vec<u8>, ApiError>, Option<(Encoder, Batches)>)> {
    let (mut encoder, mut batches) = left?;
    match piece(&mut encoder, &mut batches).await {
        Ok(Some(bytes)) => Some((Ok(bytes), Some((encoder, batches)))),
        Ok(None) => Some((encoder.end().map_err(|error| error::to_api(&error)), None)),
        Err(error) => Some((Err(error), None)),
    }
}

async fn piece(encoder: &mut Encoder, batches: &mut Batches) -> Result<Option<Vec<u8>>, ApiError> {
    match batches.next().await {
        Some(batch) => encoder.batch(&batch?).map(Some).map_err(|error| error::to_api(&error)),
        None => Ok(None),
    }
}
