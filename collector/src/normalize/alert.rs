//! Notifications of Alertmanager as rows of `alerts`: one row for each alert that a notification names. The very same notification
//! within a quarter of an hour is a retry and no further row (`journal::digests`).

use std::borrow::Cow;

use super::{Body, Normalizer};
use crate::batch::rows::columns;
use crate::batch::tables::Tables;
use crate::decode::notification::{self, Alert, Notification, Pairs};
use crate::decode::wire::Malformed;

columns! {
    /// Columns of `alerts`.
    pub(super) Columns of telemetry::table::ALERTS: time fingerprint name status severity region model starts_at ends_at
        receiver external_url generator_url summary labels annotations
}

impl Normalizer {
    /// Appends the alerts of a notification. It says nowhere when it was sent: the time of a row is that of its arrival.
    pub(super) fn alerts(&self, body: Body<'_>, tables: &mut Tables) -> Result<(), Malformed> {
        // The intake has read it before; what it took is what is here.
        let notification = notification::read(body.bytes).map_err(|_| Malformed::Truncated)?;
        for alert in &notification.alerts {
            self.alert(&notification, alert, body.received_us, tables);
        }
        Ok(())
    }

    fn alert(&self, notification: &Notification, alert: &Alert, received_us: i64, tables: &mut Tables) {
        let columns = &self.columns.alerts;
        let Some(rows) = tables.alerts.rows(received_us) else { return };
        let (labels, annotations) = (self.kept(&alert.labels), self.kept(&alert.annotations));
        let label = |key: &str| last(&labels, key);
        rows.time(columns.time, received_us);
        rows.text(columns.fingerprint, &alert.fingerprint);
        rows.text_opt(columns.name, label("alertname"));
        rows.text(columns.status, &alert.status);
        rows.text_opt(columns.severity, label("severity"));
        rows.text_opt(columns.region, label("region"));
        rows.text_opt(columns.model, label("model"));
        if let Some(us) = alert.starts_us() {
            rows.time(columns.starts_at, us);
        }
        if let Some(us) = alert.ends_us() {
            rows.time(columns.ends_at, us);
        }
        rows.text(columns.receiver, &notification.receiver);
        rows.text_some(columns.external_url, &self.redaction.clean(&notification.external_url));
        rows.text_some(columns.generator_url, &self.redaction.clean(&alert.generator_url));
        rows.text_opt(columns.summary, last(&annotations, "summary"));
        rows.map(columns.labels, labels.iter().map(|(key, value)| (*key, value)));
        rows.map(columns.annotations, annotations.iter().map(|(key, value)| (*key, value)));
        rows.end();
    }

    /// Pairs without what is never stored.
    fn kept<'p>(&self, pairs: &'p Pairs) -> Vec<(&'p str, Cow<'p, str>)> {
        let kept = pairs.0.iter().filter(|(key, _)| !self.redaction.drops(key));
        kept.map(|(key, value)| (key.as_str(), self.redaction.clean(value))).collect()
    }
}

/// The text of that name: of equal names the last one counts.
fn last<'p>(pairs: &'p [(&str, Cow<'p, str>)], key: &str) -> Option<&'p str> {
    pairs.iter().rev().find(|(name, _)| *name == key).map(|(_, value)| value.as_ref())
}
