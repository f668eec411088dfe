//! How many different values each dimension has, so that one that runs away is seen: a request id sent as a host's id would
//! make a node of every request.
//!
//! Rows are stored all the same; what is bounded is what this process and the table of nodes remember. Counts begin anew
//! every hour.

use std::collections::{BTreeMap, HashSet};

use telemetry::names;
use xxhash_rust::xxh3::xxh3_64;

use super::resource::{COUNT, Resource};

/// Time for which values are counted, microseconds: an hour.
const WINDOW_US: i64 = 3_600_000_000;
/// Dimensions watched: those of a resource, then tenant and model.
const KEYS: usize = COUNT + 2;
/// Where `host_id` stands among the dimensions.
const HOST_ID: usize = 6;
/// Senders told apart at once; beyond it they share one name.
const SENDERS_MAX: usize = 100;
/// The shared name.
const OTHER: &str = "__other__";

/// Names of the dimensions, as columns are called.
const NAMES: [&str; KEYS] = [
    "region",
    "zone",
    "environment",
    "cluster",
    "namespace",
    "pool",
    "host_id",
    "host_type",
    "service",
    "service_version",
    "instance",
    "tenant",
    "model",
];

/// Values seen in this hour.
pub(super) struct Distinct {
    limit: usize,
    window: i64,
    values: [Values; KEYS],
    runaways: BTreeMap<(&'static str, String), Beyond>,
}

/// What one sender sent of a dimension beyond its bound in this hour.
#[derive(Default)]
struct Beyond {
    /// Since the last look.
    values: u64,
    /// Whether it was told.
    told: bool,
}

#[derive(Default)]
struct Values {
    seen: HashSet<u64>,
    /// The value before: senders repeat themselves.
    last: Option<u64>,
}

/// Values beyond the bound that one sender sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runaway {
    /// The dimension.
    pub key: &'static str,
    /// `service.name` of the sender.
    pub service: String,
    /// How often a value that was new beyond the bound was met.
    pub values: u64,
    /// Whether that is the first of it in this hour.
    pub first: bool,
}

impl Distinct {
    /// Counts up to `limit` values of each dimension.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, window: 0, values: Default::default(), runaways: BTreeMap::new() }
    }

    /// Counts a resource's values; whether its host is among those within the bound.
    pub(super) fn resource(&mut self, resource: &Resource<'_>, received_us: i64) -> bool {
        self.turn(received_us);
        let mut host_within = true;
        for (place, value) in resource.dimensions().iter().enumerate() {
            let within = value.is_none_or(|value| self.see(place, value, resource));
            host_within &= within || place != HOST_ID;
        }
        host_within
    }

    /// Counts the tenant and the model of a call.
    pub(super) fn call(&mut self, tenant: Option<&str>, model: Option<&str>, resource: &Resource<'_>) {
        for (place, value) in [(COUNT, tenant), (COUNT + 1, model)] {
            if let Some(value) = value {
                self.see(place, value, resource);
            }
        }
    }

    /// What ran away since the last look.
    pub(super) fn take_runaways(&mut self) -> Vec<Runaway> {
        let met = self.runaways.iter_mut().filter(|(_, beyond)| beyond.values > 0);
        let take = |((key, service), beyond): (&(&'static str, String), &mut Beyond)| {
            let (values, first) = (std::mem::take(&mut beyond.values), !std::mem::replace(&mut beyond.told, true));
            Runaway { key, service: service.clone(), values, first }
        };
        met.map(take).collect()
    }

    fn turn(&mut self, received_us: i64) {
        let window = received_us.div_euclid(WINDOW_US);
        if window > self.window {
            self.window = window;
            self.values = Default::default();
            // What was met since the last look is still to be counted.
            self.runaways.retain(|_, beyond| beyond.values > 0);
            self.runaways.values_mut().for_each(|beyond| beyond.told = false);
        }
    }

    fn see(&mut self, place: usize, value: &str, resource: &Resource<'_>) -> bool {
        let Some(values) = self.values.get_mut(place) else { return true };
        let hash = xxh3_64(value.as_bytes());
        if values.last == Some(hash) {
            return true;
        }
        if values.seen.len() < self.limit || values.seen.contains(&hash) {
            values.seen.insert(hash);
            values.last = Some(hash);
            return true;
        }
        let key = NAMES.get(place).copied().unwrap_or(names::SERVICE_NAME);
        let service = resource.service().unwrap_or("unknown");
        let named = (key, service.to_owned());
        if self.runaways.len() < SENDERS_MAX || self.runaways.contains_key(&named) {
            self.runaways.entry(named).or_default().values += 1;
        } else {
            self.runaways.entry((key, OTHER.to_owned())).or_default().values += 1;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
    use opentelemetry_proto::tonic::resource::v1::Resource as Sent;
    use prost::Message;

    use super::*;
    use crate::decode::view::Group;

    fn sent(service: &str, host: &str) -> Vec<u8> {
        let pair = |key: &str, value: &str| KeyValue {
            key: key.to_owned(),
            value: Some(AnyValue { value: Some(Any::StringValue(value.to_owned())) }),
            ..KeyValue::default()
        };
        let attributes = vec![pair("service.name", service), pair("host.id", host)];
        Sent { attributes, ..Sent::default() }.encode_to_vec()
    }

    fn see(distinct: &mut Distinct, service: &str, host: &str, received_us: i64) -> bool {
        let bytes = sent(service, host);
        let resource = Resource::read(&Group { resource: &bytes, ..Group::default() }).unwrap();
        distinct.resource(&resource, received_us)
    }

    /// Values within the bound stay within it; those beyond are counted with their key and sender, until the next hour.
    #[test]
    fn what_runs_away_is_named() {
        let mut distinct = Distinct::new(3);
        for host in ["a", "b", "c", "a", "b"] {
            assert!(see(&mut distinct, "node", host, 1));
        }
        assert_eq!(distinct.take_runaways(), []);
        for host in ["d", "e", "d"] {
            assert!(!see(&mut distinct, "proxy", host, 2));
        }
        assert!(see(&mut distinct, "node", "c", 3));
        let expected = Runaway { key: "host_id", service: "proxy".to_owned(), values: 3, first: true };
        assert_eq!(distinct.take_runaways(), std::slice::from_ref(&expected));
        assert_eq!(distinct.take_runaways(), []);
        assert!(!see(&mut distinct, "proxy", "f", 4));
        assert_eq!(
            distinct.take_runaways(),
            [Runaway { values: 1, first: false, ..expected.clone() }],
            "it is told once"
        );
        assert_eq!(distinct.values[HOST_ID].seen.len(), 3);
        assert!(see(&mut distinct, "proxy", "d", WINDOW_US + 1), "a new hour");
        assert_eq!(distinct.take_runaways(), []);
        for host in ["e", "f", "g"] {
            see(&mut distinct, "proxy", host, WINDOW_US + 1);
        }
        assert_eq!(distinct.take_runaways(), [Runaway { values: 1, ..expected }], "and again in the next hour");
    }

    /// Senders that run away themselves do not fill the memory.
    #[test]
    fn senders_are_bounded() {
        let mut distinct = Distinct::new(1);
        see(&mut distinct, "s", "h", 1);
        for number in 0..10 * SENDERS_MAX {
            see(&mut distinct, &format!("s{number}"), &format!("h{number}"), 1);
        }
        let runaways = distinct.take_runaways();
        assert!(runaways.len() <= SENDERS_MAX + 2, "{}", runaways.len());
        assert!(runaways.iter().any(|runaway| runaway.service == OTHER));
    }
}
