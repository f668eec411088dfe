//! From what emitters send to rows with one meaning per column.
//!
//! ```text
//! body ─► resource ─► scope ─► span   ─► tokens | spans (+ requests)
//!                          ├─► metric ─► metrics | histograms (+ devices)
//!                          └─► log    ─► logs (+ requests)
//! notification ─► alerts
//! ```
//!
//! What differs between emitters is data: `dialect/` lists the names, units and signs of calls, `device/` those of gauges; the
//! rest of the module knows none.

pub mod dialect;
pub mod quality;
pub mod redact;
pub mod resource;

mod alert;
mod device;
mod distinct;
mod log;
mod logged;
mod metric;
mod models;
mod outcome;
mod own;
mod quarantine;
mod request;
mod row;
mod seen;
mod span;
mod token;
mod window;

use std::collections::BTreeMap;

use service::error::Result;

use self::distinct::Distinct;
use self::redact::Redaction;
use self::resource::{Resource, Stored};
use crate::batch::nodes;
use crate::batch::tables::Tables;
use crate::decode::view::{Attribute, Group, Scope, Span};
use crate::decode::wire::{Fields, Malformed, Raw};
use crate::decode::{canonical, check, schema};
use crate::signal::Signal;

pub use device::sources;
pub use distinct::Runaway;
pub use own::Sample;
pub use window::{late, table_of};

/// The tenant that the rows of a span will have, if it is no token.
pub(crate) fn tenant_of<'a>(
    aliases: &dialect::Aliases,
    span: &Span<'a>,
    attributes: &[Attribute<'a>],
) -> Option<&'a str> {
    seen::Seen::new(aliases, span, attributes).tenant()
}

/// What normalization is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What is never stored.
    pub redaction: Redaction,
    /// Model of a service whose spans do not name one.
    pub models: BTreeMap<String, String>,
    /// Values of one dimension an hour beyond which it runs away.
    pub distinct_max: usize,
    /// Attributes by which costs are split: what a resource says of them stands in its calls and samples too.
    pub allocation_keys: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            redaction: Redaction::default(),
            models: BTreeMap::new(),
            distinct_max: 10_000,
            allocation_keys: Vec::new(),
        }
    }
}

/// Turns sound bodies into rows.
pub struct Normalizer {
    redaction: Redaction,
    models: models::Models,
    distinct: Distinct,
    allocation_keys: Vec<String>,
    aliases: dialect::Aliases,
    sources: device::Sources,
    columns: Columns,
    /// Where rows come from, so far: groups, and patterns of tokens within them.
    origins: u64,
}

/// Positions of the columns of all tables that are filled here.
struct Columns {
    requests: request::Columns,
    tokens: token::Columns,
    devices: device::Columns,
    nodes: nodes::Columns,
    spans: span::Columns,
    logs: log::Columns,
    metrics: metric::Columns,
    histograms: metric::HistogramColumns,
    quarantine: quarantine::Columns,
    collectors: own::Columns,
    alerts: alert::Columns,
}

/// A body on its way into rows.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    /// What it carries.
    pub signal: Signal,
    /// When it was received, microseconds since 1970-01-01 UTC.
    pub received_us: i64,
    /// Whether some of its items were rejected, and must be rejected again, or it is spelled oddly; see [`canonical`].
    pub faulty: bool,
    /// Its bytes, inflated, in the protobuf encoding.
    pub bytes: &'a [u8],
}

/// Where an item stands.
struct Place<'p, 'a> {
    body: Body<'p>,
    resource: &'p Resource<'a>,
    /// Number of the group: rows of one number have the same resource.
    source: u64,
    scope: &'p Scope<'a>,
    scope_stored: &'p Stored<'a>,
    neighbours: dialect::Neighbours<'a>,
}

impl Normalizer {
    /// Finds all columns.
    ///
    /// # Errors
    /// `Internal` if the registry lacks a column.
    pub fn new(settings: Settings) -> Result<Self> {
        let columns = Columns {
            requests: request::Columns::new()?,
            tokens: token::Columns::new()?,
            devices: device::Columns::new()?,
            nodes: nodes::Columns::new()?,
            spans: span::Columns::new()?,
            logs: log::Columns::new()?,
            metrics: metric::Columns::new()?,
            histograms: metric::HistogramColumns::new()?,
            quarantine: quarantine::Columns::new()?,
            collectors: own::Columns::new()?,
            alerts: alert::Columns::new()?,
        };
        Ok(Self {
            redaction: settings.redaction,
            models: models::Models::new(settings.models),
            distinct: Distinct::new(settings.distinct_max),
            allocation_keys: settings.allocation_keys,
            aliases: dialect::Aliases::new(),
            sources: device::Sources::new(),
            columns,
            origins: 0,
        })
    }

    /// Appends the rows of a body to the tables.
    ///
    /// # Errors
    /// If the body is not sound; rows before the fault stay. Bodies that passed [`check::check`] are.
    pub fn body(&mut self, body: Body<'_>, tables: &mut Tables) -> std::result::Result<(), Malformed> {
        match body.signal {
            Signal::Own => {
                self.own(body, tables);
                return Ok(());
            }
            Signal::Alerts => return self.alerts(body, tables),
            Signal::Traces | Signal::Metrics | Signal::Logs => {}
        }
        if !body.faulty {
            return self.plain_body(body, tables);
        }
        let message = match body.signal {
            Signal::Traces => &schema::TRACES,
            Signal::Metrics => &schema::METRICS,
            Signal::Logs | Signal::Own | Signal::Alerts => &schema::LOGS,
        };
        let mended = canonical::canonical(message, body.bytes)?;
        self.plain_body(Body { bytes: &mended, ..body }, tables)
    }

    fn plain_body(&mut self, body: Body<'_>, tables: &mut Tables) -> std::result::Result<(), Malformed> {
        for field in Fields::new(body.bytes) {
            if let (1, Raw::Bytes(group)) = field? {
                if body.faulty && !check::group_sound(group)? {
                    continue;
                }
                self.group(body, group, tables)?;
            }
        }
        Ok(())
    }

    fn group<'a>(
        &mut self,
        body: Body<'a>,
        bytes: &'a [u8],
        tables: &mut Tables,
    ) -> std::result::Result<(), Malformed> {
        let resource = Resource::read(&Group::read(bytes)?)?;
        let host_within = self.distinct.resource(&resource, body.received_us);
        self.origins += 1;
        let source = self.origins;
        let mut scratch = Vec::new();
        let mut alike = token::Alike::new(bytes.len());
        let mut samples = device::Samples::default();
        for field in Fields::new(bytes) {
            let (2, Raw::Bytes(scope_bytes)) = field? else { continue };
            if body.faulty && !check::scope_sound(scope_bytes)? {
                continue;
            }
            let scope = Scope::read(scope_bytes)?;
            Attribute::read_all(scope.scope, 3, &mut scratch)?;
            let scope_stored = Stored::new(&scratch, &self.redaction)?;
            let neighbours = dialect::Neighbours::new(scope_bytes);
            let place =
                Place { body, resource: &resource, source, scope: &scope, scope_stored: &scope_stored, neighbours };
            for field in Fields::new(scope_bytes) {
                let (2, Raw::Bytes(item)) = field? else { continue };
                match body.signal {
                    Signal::Traces => self.span(&place, item, &mut scratch, &mut alike, tables)?,
                    Signal::Logs => self.log(&place, item, &mut scratch, tables)?,
                    Signal::Metrics => self.metric(&place, item, &mut scratch, &mut samples, tables)?,
                    Signal::Own | Signal::Alerts => {}
                }
            }
        }
        self.write_tokens(&resource, source, &mut alike, tables);
        self.write_samples(&resource, samples, tables);
        if let Some(times) = tables.take_times()
            && host_within
            && !tables.nodes.has_frame()
        {
            tables.seen.see(&resource, times);
        }
        Ok(())
    }

    /// What ran away since the last look: values of a dimension beyond its bound.
    pub fn take_runaways(&mut self) -> Vec<Runaway> {
        self.distinct.take_runaways()
    }

    /// Writes the intervals of the hosts seen into table `nodes`.
    pub fn write_nodes(&self, tables: &mut Tables) {
        let Tables { seen, nodes, .. } = tables;
        seen.write(&self.columns.nodes, nodes);
    }
}

#[cfg(test)]
mod tests;
