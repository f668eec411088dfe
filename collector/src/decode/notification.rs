//! What Alertmanager posts to a webhook: version 4 of its JSON, in which one notification names all alerts of a group.
//!
//! Fields that no column needs are not looked at, so that a later Alertmanager may add some.

use std::fmt;

use jiff::Timestamp;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The version of the format that is read, as the body says it.
const VERSION: &str = "4";

/// One notification.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    version: String,
    /// Receiver of Alertmanager's settings that it was sent to.
    pub receiver: String,
    /// Address of the Alertmanager that sent it, as it knows itself.
    #[serde(rename = "externalURL", default)]
    pub external_url: String,
    /// Alerts of the group that a limit of the receiver (`max_alerts`) left out.
    #[serde(default)]
    pub truncated_alerts: u64,
    /// The alerts.
    pub alerts: Vec<Alert>,
}

/// One alert of a notification.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Alert {
    /// `firing` or `resolved`.
    pub status: String,
    /// Labels, which are its identity.
    pub labels: Pairs,
    /// Words about it.
    #[serde(default)]
    pub annotations: Pairs,
    starts_at: String,
    #[serde(default)]
    ends_at: String,
    /// The expression that fired, as an address.
    #[serde(rename = "generatorURL", default)]
    pub generator_url: String,
    /// Identity of the labels, as Alertmanager computes it.
    pub fingerprint: String,
}

/// Names with their texts, in the order in which they came: a map of them would take several times the memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs(pub Vec<(String, String)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of texts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}

/// Reads a body whole, or says what is wrong with it.
///
/// # Errors
/// The fault, in words for its sender.
pub fn read(body: &[u8]) -> Result<Notification, String> {
    let notification: Notification = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    if notification.version != VERSION {
        return Err(format!("its version is {:?}, and only {VERSION:?} is read", notification.version));
    }
    for (place, alert) in notification.alerts.iter().enumerate() {
        alert.check().map_err(|fault| format!("alerts[{place}]: {fault}"))?;
    }
    Ok(notification)
}

impl Alert {
    fn check(&self) -> Result<(), String> {
        if !matches!(self.status.as_str(), "firing" | "resolved") {
            return Err(format!("status is {:?}, neither firing nor resolved", self.status));
        }
        if self.fingerprint.is_empty() {
            return Err("fingerprint is empty".to_owned());
        }
        match self.starts_us() {
            Some(_) => Ok(()),
            None => Err(format!("startsAt is {:?}, no time since 1970 in RFC 3339", self.starts_at)),
        }
    }

    /// When it began, µs since the epoch; every alert that was [`read`] says so.
    pub fn starts_us(&self) -> Option<i64> {
        instant(&self.starts_at)
    }

    /// When it ended or will be taken to have ended, µs since the epoch. Alertmanager says year 1 of one that fires.
    pub fn ends_us(&self) -> Option<i64> {
        instant(&self.ends_at)
    }
}

fn instant(text: &str) -> Option<i64> {
    let instant: Timestamp = text.parse().ok()?;
    Some(instant.as_microsecond()).filter(|us| *us > 0)
}

#[cfg(test)]
mod tests {
    use super::read;

    const BODY: &str = r#"{"receiver":"tokenwatt","status":"firing","version":"4","groupKey":"{}:{}","truncatedAlerts":2,
        "externalURL":"http://am:9093","alerts":[{"status":"firing","labels":{"alertname":"A"},"annotations":{},
        "startsAt":"2026-11-30T12:00:00.5+01:00","endsAt":"0001-01-01T00:00:00Z","generatorURL":"","fingerprint":"8c"}]}"#;

    #[test]
    fn an_alert_that_fires_has_no_end() {
        let read = read(BODY.as_bytes()).unwrap();
        assert_eq!((read.receiver.as_str(), read.truncated_alerts, read.alerts.len()), ("tokenwatt", 2, 1));
        assert_eq!((read.alerts[0].starts_us(), read.alerts[0].ends_us()), (Some(1_796_036_400_500_000), None));
    }

    #[test]
    fn a_label_that_comes_twice_is_kept_as_it_came() {
        let body = BODY.replace("{\"alertname\":\"A\"}", "{\"alertname\":\"A\",\"b\":\"1\",\"alertname\":\"B\"}");
        let pairs = [("alertname", "A"), ("b", "1"), ("alertname", "B")];
        let pairs = pairs.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(read(body.as_bytes()).unwrap().alerts[0].labels.0, pairs);
    }

    #[test]
    fn a_body_that_is_none_says_why() {
        for (from, to, why) in [
            ("\"4\"", "\"1\"", "its version is \"1\", and only \"4\" is read"),
            ("\"status\":\"firing\",\"labels\"", "\"status\":\"on\",\"labels\"", "alerts[0]: status is \"on\""),
            ("2026-11-30T12:00:00.5+01:00", "yesterday", "alerts[0]: startsAt is \"yesterday\""),
            ("\"8c\"", "\"\"", "alerts[0]: fingerprint is empty"),
            ("{\"alertname\":\"A\"}", "{\"alertname\":1}", "invalid type: integer `1`, expected a string"),
        ] {
            let body = BODY.replace(from, to);
            assert_ne!(body, BODY, "{from}");
            let fault = read(body.as_bytes()).unwrap_err();
            assert!(fault.contains(why), "{fault}");
        }
    }
}
