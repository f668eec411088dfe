//! How long and how much a port waits for its peers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::range;

/// Settings of every port of the process: what a peer that is slow, or gone without a word, may hold and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Connections of one port at once; more wait in the kernel's queue. Default 4,096.
    pub connections: usize,
    /// Time for a request's headers, which over HTTP/1 begins when the answer before is sent. Default 75s: longer than load
    /// balancers keep an idle connection (60 s), so that it is they who end it and never a request that meets a closed one.
    #[serde(with = "crate::config::duration")]
    pub header_timeout: Duration,
    /// A request whose body brings less than `body_bytes` while it was waited for so long is answered with 408, over gRPC with
    /// `UNAVAILABLE`. It ends with the first byte of the answer: a stream in both directions may be silent. Default 30s.
    #[serde(with = "crate::config::duration")]
    pub body_window: Duration,
    /// Bytes that a body has to bring in `body_window`. Default 16KiB: half a kibibyte a second.
    #[serde(with = "crate::config::bytes")]
    pub body_bytes: u64,
    /// A client that takes nothing of its answer for so long is gone: its call is ended, and with it the query that it waited
    /// for. Time in which there is nothing to take does not count. Default 60s.
    #[serde(with = "crate::config::duration")]
    pub write_stall: Duration,
    /// A connection of HTTP/2 without any call for so long is ended without loss, by GOAWAY, whether it answers pings or not: it has the
    /// place of another. Default 10m.
    #[serde(with = "crate::config::duration")]
    pub idle_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4_096,
            header_timeout: Duration::from_secs(75),
            body_window: Duration::from_secs(30),
            body_bytes: 16 << 10,
            write_stall: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(10 * 60),
        }
    }
}

/// More than any one machine has files for.
const CONNECTIONS_MAX: usize = 1 << 20;
/// More would give up peers that do what they should.
const BODY_BYTES_MAX: u64 = 1 << 20;
/// Shortest and longest time that can be set.
const TIME_MIN: Duration = Duration::from_secs(1);
const TIME_MAX: Duration = Duration::from_secs(86_400);

impl Limits {
    /// Adds one line for every rule broken.
    pub fn validate(&self, faults: &mut Vec<String>) {
        range::within("listen.connections", self.connections, 1..=CONNECTIONS_MAX, faults);
        range::size("listen.body_bytes", self.body_bytes, 1..=BODY_BYTES_MAX, faults);
        for (key, value) in [
            ("header_timeout", self.header_timeout),
            ("body_window", self.body_window),
            ("write_stall", self.write_stall),
            ("idle_timeout", self.idle_timeout),
        ] {
            range::span(&format!("listen.{key}"), value, TIME_MIN..=TIME_MAX, faults);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What no port could hold is a fault; what a port has by default is none.
    #[test]
    fn limits_have_bounds() {
        let mut faults = Vec::new();
        Limits::default().validate(&mut faults);
        assert_eq!(faults, Vec::<String>::new());
        let none = Duration::ZERO;
        let limits = Limits {
            connections: 0,
            header_timeout: none,
            body_window: none,
            body_bytes: 0,
            write_stall: none,
            idle_timeout: none,
        };
        limits.validate(&mut faults);
        assert_eq!(faults.len(), 6, "{faults:?}");
        assert!(faults[0].contains("`listen.connections` is 0"), "{faults:?}");
    }
}
