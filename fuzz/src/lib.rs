//! What the targets share: the collector's own modules, of which links lie beside this file, and what is asked of them.
#![allow(dead_code, unreachable_pub, reason = "the modules are the collector's, of which the targets use a part")]

pub mod decode;
pub mod neuron;
pub mod normalize;
pub mod scrape;
pub mod signal;

mod encode;
mod labels;

/// As the collector's own module of that name, without the network.
pub mod receive {
    pub use crate::signal::Encoding;

    /// Shares of the collector's memory, of which nothing here has one.
    pub mod admit {
        #[derive(Debug)]
        pub struct Permit;
    }
}

/// Frames of the collector's journal, without the disk.
pub mod journal {
    mod frame;

    pub use frame::Stored;

    /// What a frame holds; its checksum is taken for right, since chance never hits one.
    pub fn read(frame: &[u8]) -> Option<Stored> {
        let (head, rest) = frame.split_first_chunk::<8>()?;
        let (length, _) = frame::prefix(head)?;
        let rest = rest.get(..length)?.to_vec();
        let crc = crc32fast::hash(&rest);
        frame::decode(rest, crc).map(|(_, stored)| stored)
    }
}

/// The collector's buffers, without the task that fills them.
pub mod batch {
    pub mod nodes;
    pub mod rows;
    pub mod runs;
    pub mod tables;
}

use batch::tables::Tables;
use decode::check::{self, Checked};
use normalize::{Body, Normalizer, Settings, late};
use signal::Signal;

/// When all bodies are received, microseconds since 1970-01-01 UTC.
pub const RECEIVED_US: i64 = 1_790_000_000_000_000;

/// The signal that a byte stands for.
pub fn signal_of(byte: u8) -> Signal {
    Signal::OTLP[usize::from(byte) % Signal::OTLP.len()]
}

/// The description of a signal's body.
pub fn message_of(signal: Signal) -> &'static decode::schema::Message {
    match signal {
        Signal::Traces => &decode::schema::TRACES,
        Signal::Metrics => &decode::schema::METRICS,
        Signal::Logs | Signal::Own | Signal::Alerts => &decode::schema::LOGS,
    }
}

/// Does with a body what the collector does, and holds it to its promises: what was checked can be turned into rows, and every
/// item accepted is a row, of its table or in quarantine.
pub fn land(signal: Signal, body: &[u8]) {
    let Ok(mut checked) = look(signal, body) else { return };
    let faulty = checked.is_faulty();
    if checked.odd {
        let Ok(mended) = decode::canonical::canonical(message_of(signal), body) else { return };
        // A part that was not looked at before may be no message; then the body is refused.
        let Ok(again) = look(signal, &mended) else { return };
        checked = again;
        // What is rejected is left as it was.
        assert!(!checked.odd || checked.rejected > 0 || checked.unsound, "mending leaves nothing odd");
    }
    // The intake refuses what would become too much.
    if checked.shared_bytes + checked.row_bytes > 1 << 25 {
        return;
    }
    let mut normalizer = Normalizer::new(Settings::default()).expect("columns");
    let mut tables = Tables::new(|_| 0);
    tables.enter(1, RECEIVED_US);
    let body = Body { signal, received_us: RECEIVED_US, faulty, bytes: body };
    normalizer.body(body, &mut tables).expect("what was checked can be turned into rows");
    normalizer.write_nodes(&mut tables);
    let mut rows = 0;
    for buffer in tables.buffers_mut() {
        let counts = ["tokens", "spans", "logs", "metrics", "histograms", "quarantine"].contains(&buffer.table().name);
        if let Some(closed) = buffer.close(1).expect("rows fit their schema") {
            rows += if counts { closed.rows as u64 } else { 0 };
        }
    }
    // Token events of spans are rows beside their spans.
    assert!(rows >= checked.accepted, "{rows} rows of {} items", checked.accepted);
    assert!(rows == checked.accepted || signal == Signal::Traces, "{rows} rows of {} items", checked.accepted);
}

/// Does the same with a body that the collector wrote itself, of which nothing may be rejected.
pub fn land_own(signal: Signal, body: &[u8]) {
    let checked = look(signal, body).expect("what we write is OTLP");
    assert!(checked.accepted > 0, "it is not written for nothing");
    assert!(!checked.is_faulty(), "{checked:?}");
    land(signal, body);
}

/// Does with the collector's own counters what the collector does: what they are not is left out.
pub fn own(body: &[u8]) {
    let mut normalizer = Normalizer::new(Settings::default()).expect("columns");
    let mut tables = Tables::new(|_| 0);
    tables.enter(1, RECEIVED_US);
    let body = Body { signal: Signal::Own, received_us: RECEIVED_US, faulty: false, bytes: body };
    normalizer.body(body, &mut tables).expect("nothing else is read of it");
}

/// Does with a notification what the collector does: each alert of one that is sound is a row.
pub fn alerts(body: &[u8]) {
    let Ok(notification) = decode::notification::read(body) else { return };
    let mut normalizer = Normalizer::new(Settings::default()).expect("columns");
    let mut tables = Tables::new(|_| 0);
    tables.enter(1, RECEIVED_US);
    let body = Body { signal: Signal::Alerts, received_us: RECEIVED_US, faulty: false, bytes: body };
    normalizer.body(body, &mut tables).expect("what was checked can be turned into rows");
    let closed = tables.alerts.close(1).expect("rows fit their schema");
    assert_eq!(closed.map_or(0, |closed| closed.rows), notification.alerts.len());
}

fn look(signal: Signal, body: &[u8]) -> Result<Checked, decode::wire::Malformed> {
    check::check(signal, body, |item| late(signal, item, RECEIVED_US))
}
