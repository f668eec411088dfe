//! What a resource says about where a row comes from: the dimensions every table begins with.

use std::cell::OnceCell;
use std::ops::Range;

use telemetry::names;

use super::redact::Redaction;
use crate::batch::rows::Rows;
use crate::decode::view::{Attribute, Group, Value};
use crate::decode::wire::{Fields, Malformed, Raw};
use crate::decode::{print, schema};

/// Positions of the dimensions in every table that has them: all columns after `time`, in the order of [`KEYS`].
pub const DIMENSIONS: Range<usize> = 1..12;
/// How many dimensions there are.
pub(super) const COUNT: usize = 11;

/// Attributes that a dimension is read from, the first one present wins.
const KEYS: [&[&str]; COUNT] = [
    &[names::CLOUD_REGION, "aws.region"],
    &[names::CLOUD_ZONE, "cloud.zone"],
    &[names::ENVIRONMENT, "deployment.environment"],
    &[names::K8S_CLUSTER, "aws.eks.cluster.arn", "aws.ecs.cluster.arn"],
    &[names::K8S_NAMESPACE],
    &[names::POOL],
    &[names::HOST_ID, "host.name", "k8s.node.name"],
    &[names::HOST_TYPE],
    &[names::SERVICE_NAME],
    &[names::SERVICE_VERSION],
    &[names::SERVICE_INSTANCE_ID, "k8s.pod.uid", "k8s.pod.name", "container.id"],
];
/// Where `region` stands among the dimensions.
pub(super) const REGION: usize = 0;
/// Where `zone` stands.
pub(super) const ZONE: usize = 1;
/// Where `host_id` stands.
pub(super) const HOST_ID: usize = 6;
/// Where `host_type` stands.
pub(super) const HOST_TYPE: usize = 7;
const SERVICE: usize = 8;
/// Number of the field of a `Resource` with its references to entities.
const ENTITY_REFS: u32 = 3;
const INSTANCE: usize = 10;

/// A resource, read.
pub struct Resource<'a> {
    /// The `Resource` message.
    pub raw: &'a [u8],
    /// Its attributes as sent.
    pub attributes: Vec<Attribute<'a>>,
    /// Schema of the resource.
    pub schema_url: &'a str,
    /// Attributes its sender dropped.
    pub dropped: u32,
    dimensions: [Option<&'a str>; COUNT],
    stored: OnceCell<Stored<'a>>,
    has_entities: bool,
    entities: OnceCell<String>,
}

/// Attributes in the form in which tables keep them.
#[derive(Debug, Default)]
pub struct Stored<'a> {
    /// Key and value as text.
    pub map: Vec<(&'a str, String)>,
    /// OTLP JSON of the values that are not text, empty if there are none.
    pub typed: String,
}

impl<'a> Stored<'a> {
    /// Attributes as tables keep them, without what must not be stored.
    pub fn new(attributes: &[Attribute<'a>], redaction: &Redaction) -> Result<Self, Malformed> {
        let mut stored = Self::default();
        for attribute in attributes.iter().filter(|attribute| !redaction.drops(attribute.key)) {
            let mut value = String::new();
            print::plain(attribute.value, redaction, &mut value)?;
            stored.map.push((attribute.key, value));
        }
        print::typed(attributes, redaction, &mut stored.typed)?;
        Ok(stored)
    }

    /// Puts them into a row.
    pub fn write(&self, rows: &mut Rows, map: usize, typed: usize) {
        rows.map(map, self.map.iter().map(|(key, value)| (*key, value.as_str())));
        rows.text_some(typed, &self.typed);
    }
}

impl<'a> Resource<'a> {
    /// Reads the resource of a group.
    pub fn read(group: &Group<'a>) -> Result<Self, Malformed> {
        let mut attributes = Vec::new();
        Attribute::read_all(group.resource, 1, &mut attributes)?;
        let (mut dropped, mut has_entities) = (0, false);
        for field in Fields::new(group.resource) {
            match field? {
                (2, Raw::Varint(count)) => dropped = count as u32,
                (ENTITY_REFS, Raw::Bytes(_)) => has_entities = true,
                _ => {}
            }
        }
        let dimensions = KEYS.map(|keys| keys.iter().find_map(|key| named_text(&attributes, key)));
        Ok(Self {
            raw: group.resource,
            attributes,
            schema_url: group.schema_url,
            dropped,
            dimensions,
            stored: OnceCell::new(),
            has_entities,
            entities: OnceCell::new(),
        })
    }

    /// Whether the text of a dimension is longer than its column takes.
    pub fn is_cut(&self) -> bool {
        let is_dimension = |key| KEYS.iter().any(|keys| keys.contains(&key));
        self.attributes.iter().any(|attribute| attribute.value.is_cut() && is_dimension(attribute.key))
    }

    /// The dimensions in the order of the tables' columns.
    pub fn dimensions(&self) -> &[Option<&'a str>; COUNT] {
        &self.dimensions
    }

    /// Puts the dimensions into a row.
    #[inline]
    pub fn write(&self, rows: &mut Rows) {
        for (value, column) in self.dimensions.iter().zip(DIMENSIONS) {
            rows.text_opt(column, *value);
        }
    }

    /// Puts the dimensions into this row and all that follow.
    pub fn hold(&self, rows: &mut Rows) {
        for (value, column) in self.dimensions.iter().zip(DIMENSIONS) {
            rows.hold(column, *value);
        }
    }

    /// The attributes as tables keep them.
    pub fn stored(&self, redaction: &Redaction) -> Result<&Stored<'a>, Malformed> {
        if self.stored.get().is_none() {
            let _ = self.stored.set(Stored::new(&self.attributes, redaction)?);
        }
        self.stored.get().ok_or(Malformed::Truncated)
    }

    /// Its references to entities as an OTLP JSON array; empty if there are none.
    pub fn entities(&self, redaction: &Redaction) -> Result<&str, Malformed> {
        if self.has_entities && self.entities.get().is_none() {
            let mut printed = String::new();
            print::array(&schema::ENTITY_REF, ENTITY_REFS, self.raw, redaction, &mut printed)?;
            let _ = self.entities.set(printed);
        }
        Ok(self.entities.get().map_or("", String::as_str))
    }

    /// An attribute's value.
    pub fn get(&self, key: &str) -> Value<'a> {
        self.attributes.iter().rfind(|attribute| attribute.key == key).map(|found| found.value).unwrap_or_default()
    }

    /// The attributes of these keys, but for those of which `is_told` says that the row tells them itself.
    pub(super) fn named<'k>(
        &'k self,
        keys: &'k [String],
        is_told: impl Fn(&str) -> bool + 'k,
    ) -> impl Iterator<Item = Attribute<'a>> + 'k {
        let found = move |key: &String| self.attributes.iter().rfind(|attribute| attribute.key == *key).copied();
        keys.iter().filter(move |key| !is_told(key)).filter_map(found)
    }

    /// Name of the emitter.
    pub fn service(&self) -> Option<&'a str> {
        self.dimensions[SERVICE]
    }

    /// Engine replica.
    pub fn instance(&self) -> Option<&'a str> {
        self.dimensions[INSTANCE]
    }

    /// How the host was bought.
    pub fn capacity_type(&self) -> Option<&'a str> {
        self.get(names::CAPACITY_TYPE).text()
    }

    /// Account that pays.
    pub fn account(&self) -> Option<&'a str> {
        self.get(names::CLOUD_ACCOUNT).text()
    }

    /// Accelerator chips that serve the replica.
    pub fn chips(&self) -> Option<i64> {
        self.get(names::CHIPS).integer().filter(|chips| (1..=1_000_000).contains(chips))
    }
}

/// The text of the attribute of that key, the last one if it comes twice.
pub(super) fn named_text<'a>(attributes: &[Attribute<'a>], key: &str) -> Option<&'a str> {
    attributes.iter().rfind(|attribute| attribute.key == key).and_then(|found| found.value.text())
}
