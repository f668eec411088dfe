//! What both protocols do with a body once they have it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::request;
use bytes::Bytes;
use service::channel::Sender;
use service::clock::SharedClock;
use service::error::{Error, Kind, Result};
use service::task::blocking;
use tokio::sync::oneshot;
use xxhash_rust::xxh3::Xxh3;

use super::admit::{Budget, Line, Permit};
use super::identify::{Writer, Writers};
use super::read::{self, Length};
use super::{Encoding, alerts, read::GRPC_PREFIX, tenants};
use crate::counters::Counters;
use crate::decode::check::{self, Checked};
use crate::decode::inflate::{self, Compression, InflateError};
use crate::decode::json::{self, JsonError};
use crate::decode::{canonical, schema};
use crate::journal::{Append, Digests, Known, Room, Stored};
use crate::normalize;
use crate::signal::Signal;

/// Everything a request needs. Clones share it.
#[derive(Clone)]
pub struct Intake {
    parts: Arc<Parts>,
}

/// What an intake is made of.
pub struct Parts {
    /// Source of the times of arrival.
    pub clock: SharedClock,
    /// Memory for bodies.
    pub budget: Budget,
    /// Where bodies that are read wait until they are durable.
    pub line: Line,
    /// Largest body, inflated or not.
    pub body_bytes_max: usize,
    /// Who may send.
    pub writers: Writers,
    /// What was acknowledged lately.
    pub digests: Arc<Digests>,
    /// To the journal.
    pub journal: Sender<Append>,
    /// What the journal may still take.
    pub room: Arc<Room>,
    /// Own counters.
    pub counters: Counters,
}

/// A body as it came.
pub(super) struct Raw {
    pub(super) signal: Signal,
    pub(super) encoding: Encoding,
    pub(super) compression: Compression,
    pub(super) bytes: Bytes,
    pub(super) permit: Permit,
    /// Who sent it, where somebody has to say.
    pub(super) writer: Option<Arc<Writer>>,
}

/// What a sender is told when its body is durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Accepted {
    /// Items that were not stored.
    pub(super) rejected: u64,
    /// Why, or a warning; empty if there is nothing to say.
    pub(super) message: String,
}

/// Bodies up to this are checked where they were read, which takes less than a millisecond; larger ones, and those that must be
/// made readable first, off the I/O threads.
const INLINE_BYTES: usize = 512 * 1024;

/// How long a request may wait before its body is read. Senders give up after ten seconds, unless told otherwise.
const PATIENCE: Duration = Duration::from_secs(1);

impl Intake {
    /// Puts the parts together.
    pub fn new(parts: Parts) -> Self {
        Self { parts: Arc::new(parts) }
    }

    /// Reads a request's body, if its sender may send, is within its quota and there is room.
    pub(super) async fn read(
        &self,
        request: &request::Parts,
        body: &mut Body,
        length: Length,
    ) -> Result<(Bytes, Permit, Option<Arc<Writer>>)> {
        let writer = self.parts.writers.identify(request)?;
        writer.as_ref().map_or(Ok(()), |writer| writer.admit())?;
        self.parts.room.check()?;
        let patience = async { self.parts.clock.sleep(PATIENCE).await };
        let _entry = self.parts.line.enter(patience).await.ok_or_else(read::no_room)?;
        let (bytes, permit) = read::read(body, length, self.parts.body_bytes_max, &self.parts.budget).await?;
        if let Some(writer) = &writer {
            writer.charge_bytes(bytes.len());
        }
        Ok((bytes, permit, writer))
    }

    /// Whether the journal may take a body.
    pub(super) fn has_room(&self) -> Result<()> {
        self.parts.room.check()
    }

    /// Memory for a body, if it is free now.
    pub(super) fn room(&self, bytes: usize) -> Option<Permit> {
        self.parts.budget.take(bytes)
    }

    /// Largest body, inflated or not.
    pub(super) fn body_bytes_max(&self) -> usize {
        self.parts.body_bytes_max
    }

    /// Makes a body durable and says what became of it.
    pub(super) async fn take(&self, raw: Raw) -> Result<Accepted> {
        let (signal, writer) = (raw.signal, raw.writer.clone());
        let began = self.parts.clock.monotonic();
        self.parts.counters.received_bytes.add(raw.bytes.len() as u64);
        let outcome = self.store(raw).await;
        match &outcome {
            Ok((accepted, stored)) => {
                self.parts.counters.taken(signal, stored);
                self.parts.counters.ack_seconds.observe(self.parts.clock.monotonic().saturating_sub(began));
                if let (Some(writer), Some(checked)) = (writer, stored) {
                    writer.charge_items(checked.accepted, accepted.rejected);
                }
            }
            Err(error) => self.refused(error),
        }
        outcome.map(|(accepted, _)| accepted)
    }

    /// Counts a request that was answered with an error.
    pub(super) fn refused(&self, error: &Error) {
        self.parts.counters.refused(error.kind());
    }

    async fn store(&self, raw: Raw) -> Result<(Accepted, Option<Checked>)> {
        let received_us = self.parts.clock.now_us();
        let limit = self.parts.body_bytes_max;
        let signal = raw.signal;
        let plain = raw.compression == Compression::Identity && raw.encoding == Encoding::Protobuf;
        let heavy = raw.bytes.len() > INLINE_BYTES || !plain;
        let mut place = self.parts.line.join(raw.bytes.len());
        let turn = self.parts.line.turn().await;
        let open = move || {
            let _turn = turn;
            guarded(|| open(raw, limit, received_us))
        };
        let opened = if heavy { blocking("read the body", open).await?? } else { open()? };
        place.grow(opened.body.len());
        let checked = opened.checked;
        let accepted = Accepted { rejected: checked.rejected + checked.foreign, message: message(&checked) };
        if checked.accepted == 0 {
            return Ok((accepted, Some(checked)));
        }
        // A body without times may be meant twice, so it is never taken for a retry: its digest is made unique.
        let digest = if checked.timeless { rand::random() } else { opened.digest };
        match self.parts.digests.begin(digest) {
            Known::Stored => return Ok((accepted, None)),
            Known::Storing => return Err(Error::unavailable("an equal body is being stored; ask again for its fate")),
            Known::New => {}
        }
        // A sender that goes away while the queue is full takes its body along; its retry must find it new.
        let on_the_way = OnTheWay::new(&self.parts.digests, digest);
        let (done, durable) = oneshot::channel();
        let faulty = checked.is_faulty();
        let (encoding, compression) = opened.form;
        let stored = Stored { signal, compression, encoding, faulty, received_us, digest, body: opened.raw };
        let append = Append { stored, body: opened.body, permit: Some(opened.permit), done };
        self.parts.journal.send(append).await.map_err(|_| stopping())?;
        on_the_way.arrived();
        durable.await.map_err(|_| stopping())??;
        Ok((accepted, Some(checked)))
    }
}

/// A body that is noted as being stored and not yet in the journal's hands: dropped before, it is forgotten again.
struct OnTheWay<'a> {
    digests: &'a Digests,
    digest: Option<u128>,
}

impl<'a> OnTheWay<'a> {
    fn new(digests: &'a Digests, digest: u128) -> Self {
        Self { digests, digest: Some(digest) }
    }

    /// From here on the journal says what becomes of it.
    fn arrived(mut self) {
        self.digest = None;
    }
}

impl Drop for OnTheWay<'_> {
    fn drop(&mut self) {
        if let Some(digest) = self.digest {
            self.digests.abandon(digest);
        }
    }
}

fn stopping() -> Error {
    Error::unavailable("the collector is stopping")
}

/// A body made readable and proven sound.
pub(super) struct Opened {
    /// As it is journalled: as it came, unless items were taken out of it.
    pub(super) raw: Bytes,
    pub(super) form: (Encoding, Compression),
    pub(super) body: Bytes,
    pub(super) permit: Permit,
    pub(super) digest: u128,
    pub(super) checked: Checked,
}

/// A fault of ours met on one body is told to its sender, and costs nobody else their connection.
fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    // Nothing outlives the unwinding that the body's reading has touched.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(Error::internal("the body could not be read")))
}

/// A body's rows may take so many times the largest body; an item of 40 bytes with nothing in it is weighed as six times that.
const ROWS_MAX: u64 = 8;
/// What rows repeat of what they have in common, such as their resource, may take so many times the largest body.
const SHARED_MAX: u64 = 4;
/// Either may take so many bytes, however small the largest body is.
const ROWS_MIN: u64 = 32 << 20;

/// Sees to it that a body's rows are not out of proportion to it: an empty record takes two bytes, which compress to nothing, and
/// is a row all the same.
///
/// # Errors
/// `TooLarge`.
pub(super) fn weigh(checked: Checked, limit: usize) -> Result<Checked> {
    let items = checked.accepted;
    let bounds = [
        (checked.row_bytes, ROWS_MAX, "as rows", "send fewer items in a request, or fewer attributes in an item"),
        (
            checked.shared_bytes,
            SHARED_MAX,
            "as rows, each with its resource and scope",
            "send fewer items in a request, or fewer resource attributes",
        ),
    ];
    for (takes, times, how, hint) in bounds {
        let most = (times * limit as u64).max(ROWS_MIN);
        if takes > most {
            let message = format!("its {items} items would take {takes} bytes {how}; the most is {most}");
            return Err(Error::too_large(message).with_hint(hint));
        }
    }
    Ok(checked)
}

fn open(raw: Raw, limit: usize, received_us: i64) -> Result<Opened> {
    if raw.signal == Signal::Alerts {
        return alerts::open(raw, limit);
    }
    let Raw { signal, encoding, compression, bytes, mut permit, writer } = raw;
    let (mut raw, mut form) = (bytes, (encoding, compression));
    let mut body = readable(signal, encoding, compression, &raw, limit, |more| permit.grow(more))?;
    let check = |body: &[u8]| {
        let checked =
            check::check(signal, body, |item| normalize::late(signal, item, received_us)).map_err(|error| {
                Error::invalid(format!("the body is no OTLP {} request", signal.name())).with_source(error)
            })?;
        weigh(checked, limit)
    };
    let mut checked = check(&body)?;
    if let (true, Some(message)) = (checked.odd, message_of(signal)) {
        if !permit.grow(body.len()) {
            return Err(read::no_room());
        }
        let mended = canonical::canonical(message, &body)
            .map_err(|error| Error::invalid("the parts of the body do not fit together").with_source(error))?;
        checked = Checked { odd: true, ..check(&mended)? };
        body = Bytes::from(mended);
    }
    if let Some(writer) = writer.filter(|writer| !writer.principal.every_tenant()) {
        if !permit.grow(body.len()) {
            return Err(read::no_room());
        }
        let foreign = tenants::foreign(signal, &body, &writer.principal);
        let foreign = foreign.map_err(|error| Error::invalid("the tenants of the body").with_source(error))?;
        if let Some((kept, foreign)) = foreign {
            checked = Checked { odd: checked.odd, foreign, ..check(&kept)? };
            (raw, body) = (kept.clone(), kept);
            form = (Encoding::Protobuf, Compression::Identity);
        }
    }
    Ok(Opened { raw, form, digest: digest(signal, &body), body, permit, checked })
}

/// What a body is recognised by when it comes again: its signal and its bytes, inflated, in the protobuf encoding.
pub(crate) fn digest(signal: Signal, body: &[u8]) -> u128 {
    let mut hasher = Xxh3::new();
    hasher.update(&[signal.code()]);
    hasher.update(body);
    hasher.digest128()
}

fn message_of(signal: Signal) -> Option<&'static schema::Message> {
    match signal {
        Signal::Traces => Some(&schema::TRACES),
        Signal::Metrics => Some(&schema::METRICS),
        Signal::Logs => Some(&schema::LOGS),
        Signal::Own | Signal::Alerts => None,
    }
}

/// A body inflated and in the protobuf encoding.
///
/// # Errors
/// `TooLarge`, `Overloaded` if `room` says no, `Invalid`.
pub fn readable(
    signal: Signal,
    encoding: Encoding,
    compression: Compression,
    bytes: &Bytes,
    limit: usize,
    mut room: impl FnMut(usize) -> bool,
) -> Result<Bytes> {
    let inflated = inflate::inflate(compression, bytes, limit, &mut room).map_err(|error| match error {
        InflateError::TooLarge(limit) => read::too_large(limit),
        InflateError::NoRoom => read::no_room(),
        InflateError::Invalid(..) => Error::invalid("the body cannot be inflated").with_source(error),
    })?;
    let message = match message_of(signal) {
        Some(message) if encoding == Encoding::Json => message,
        _ => return Ok(inflated),
    };
    if !room(inflated.len()) {
        return Err(read::no_room());
    }
    let encoded = json::encode(message, &inflated, limit, room).map_err(|error| match error {
        JsonError::TooLarge(limit) => read::too_large(limit),
        JsonError::NoRoom => read::no_room(),
        JsonError::Invalid(..) => Error::invalid("the body is no OTLP/JSON").with_source(error),
    })?;
    Ok(Bytes::from(encoded))
}

fn message(checked: &Checked) -> String {
    let mut message = String::new();
    if let Some(fault) = checked.fault {
        message = format!("{} rejected; the first because its {}", checked.rejected, fault.message());
    }
    if checked.foreign > 0 {
        if !message.is_empty() {
            message.push_str("; ");
        }
        message.push_str(&format!("{} rejected because this sender may not write for their tenant", checked.foreign));
    }
    if checked.quarantined > 0 {
        if !message.is_empty() {
            message.push_str("; ");
        }
        message.push_str(&format!(
            "{} put into quarantine: event time before what is kept, or more than 10 minutes ahead",
            checked.quarantined
        ));
    }
    message
}

/// The message of a gRPC body without its prefix, and whether it is compressed.
pub(super) fn unprefix(bytes: &Bytes) -> Result<(bool, Bytes)> {
    let whole = bytes.get(1..GRPC_PREFIX).and_then(|length| length.try_into().ok()).map(u32::from_be_bytes);
    match (bytes.first(), whole) {
        (Some(flag @ (0 | 1)), Some(length)) if bytes.len() == GRPC_PREFIX + length as usize => {
            Ok((*flag == 1, bytes.slice(GRPC_PREFIX..)))
        }
        _ => Err(Error::new(Kind::Invalid, "the request is no whole gRPC message")),
    }
}

#[cfg(test)]
mod tests;
