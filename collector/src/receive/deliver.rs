//! Bodies of the collector's own receivers (scrapes, files, devices): the same way as everybody's, without a connection.

use bytes::Bytes;
use service::error::Result;

use super::Encoding;
use super::intake::{Intake, Raw};
use super::read;
use crate::decode::inflate::Compression;
use crate::signal::Signal;

impl Intake {
    /// Makes an OTLP body durable, however long that takes: while there is no room or no disk, it is offered again.
    ///
    /// # Errors
    /// If waiting does not help: the body is no OTLP or too large.
    ///
    /// # Cancel safety
    /// A cancelled call may have stored the body; the same bytes offered again are then not stored twice.
    pub(crate) async fn deliver(&self, signal: Signal, body: Bytes) -> Result<()> {
        loop {
            let error = match self.offer(signal, body.clone()).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let Some(wait) = error.kind().retry_after() else { return Err(error) };
            tokio::time::sleep(wait).await;
        }
    }

    async fn offer(&self, signal: Signal, bytes: Bytes) -> Result<()> {
        self.has_room()?;
        let permit = self.room(bytes.len()).ok_or_else(read::no_room)?;
        let (encoding, compression) = (Encoding::Protobuf, Compression::Identity);
        // Nobody has to say who they are: the settings did, by naming what is read.
        let raw = Raw { signal, encoding, compression, bytes, permit, writer: None };
        self.take(raw).await.map(|_| ())
    }
}
