//! What several tables have in common: ids, the origin of an OTLP row.

use super::Place;
use super::redact::Redaction;
use crate::batch::rows::Rows;
use crate::decode::wire::Malformed;

/// Positions of the columns that let an OTLP row be rebuilt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) resource: usize,
    pub(super) resource_typed: usize,
    pub(super) resource_schema_url: usize,
    pub(super) resource_dropped: usize,
    pub(super) scope_name: usize,
    pub(super) scope_version: usize,
    pub(super) scope_attributes: usize,
    pub(super) scope_typed: usize,
    pub(super) scope_schema_url: usize,
    pub(super) scope_dropped: usize,
    pub(super) resource_entities: usize,
}

/// Gathers the origin's positions out of a table's columns.
macro_rules! origin {
    ($columns:expr) => {
        $crate::normalize::row::Origin {
            resource: $columns.resource,
            resource_typed: $columns.resource_typed,
            resource_schema_url: $columns.resource_schema_url,
            resource_dropped: $columns.resource_dropped,
            scope_name: $columns.scope_name,
            scope_version: $columns.scope_version,
            scope_attributes: $columns.scope_attributes,
            scope_typed: $columns.scope_typed,
            scope_schema_url: $columns.scope_schema_url,
            scope_dropped: $columns.scope_dropped,
            resource_entities: $columns.resource_entities,
        }
    };
}
pub(super) use origin;

impl Origin {
    /// Puts resource and scope into a row.
    pub(super) fn write(self, place: &Place<'_, '_>, redaction: &Redaction, rows: &mut Rows) -> Result<(), Malformed> {
        place.resource.stored(redaction)?.write(rows, self.resource, self.resource_typed);
        rows.text_some(self.resource_schema_url, place.resource.schema_url);
        rows.int(self.resource_dropped, i64::from(place.resource.dropped));
        rows.text_some(self.scope_name, place.scope.name);
        rows.text_some(self.scope_version, place.scope.version);
        place.scope_stored.write(rows, self.scope_attributes, self.scope_typed);
        rows.text_some(self.scope_schema_url, place.scope.schema_url);
        rows.int(self.scope_dropped, i64::from(place.scope.dropped));
        rows.text_some(self.resource_entities, place.resource.entities(redaction)?);
        Ok(())
    }
}

/// An id in hex, on the stack; empty if the id is, or if it is longer than any id.
pub(super) struct Hex {
    digits: [u8; 32],
    length: usize,
}

impl Hex {
    /// The hex digits of an id of at most 16 bytes.
    #[inline]
    pub(super) fn new(id: &[u8]) -> Self {
        let mut digits = [0; 32];
        let length = id.len() * 2;
        let encoded = digits.get_mut(..length).is_some_and(|place| hex::encode_to_slice(id, place).is_ok());
        Self { digits, length: if encoded { length } else { 0 } }
    }

    /// The digits.
    #[inline]
    pub(super) fn as_str(&self) -> &str {
        self.digits.get(..self.length).and_then(|digits| std::str::from_utf8(digits).ok()).unwrap_or_default()
    }
}

/// Nanoseconds of the wire as microseconds; what no table accepts does not overflow on the way to being refused.
#[inline]
pub(super) fn micros(nanos: u64) -> i64 {
    (nanos / 1_000) as i64
}
