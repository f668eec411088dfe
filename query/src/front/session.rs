//! Settings of one connection: what clients set without being asked, and the little of it that means something here.
//!
//! Nothing set on one connection is seen on another, and no setting of the engine can be reached.

use std::{collections::BTreeMap, str::FromStr, time::Duration};

use arrow::array::timezone::Tz;
use telemetry::contract::{ApiError, SqlRequest};

/// Names that may be set, as PostgreSQL spells them, and what each holds at first.
const KNOWN: [(&str, &str); 7] = [
    ("statement_timeout", "0"),
    ("TimeZone", "UTC"),
    ("application_name", ""),
    ("search_path", "public"),
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("extra_float_digits", "1"),
];
/// Longest value: a name, a path or a number, never a document.
const VALUE_BYTES_MAX: usize = 256;

/// The settings of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Values that were set, by name.
    given: BTreeMap<&'static str, String>,
    timeout: Option<Duration>,
}

impl Settings {
    /// Sets `name`, whatever its case, to a value as SQL spells it, with or without quotes; `DEFAULT` takes it back.
    ///
    /// # Errors
    /// `denied` for a name that is not known, with those that are; `invalid` for a value that it cannot have.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), ApiError> {
        let Some((name, _)) = known(name) else { return Err(unknown(name)) };
        let value = bare(value);
        if value.eq_ignore_ascii_case("default") {
            self.reset(name);
            return Ok(());
        }
        let refused = |what: &str| invalid(format!("`{value}` cannot be the value of {name}: {what}"));
        if value.len() > VALUE_BYTES_MAX {
            return Err(refused("it is too long"));
        }
        match name {
            "statement_timeout" => {
                let timeout = duration(value).ok_or_else(|| refused("give milliseconds, or 10s, 2min, 1h"))?;
                self.timeout = Some(timeout).filter(|timeout| !timeout.is_zero());
            }
            "TimeZone" if Tz::from_str(value).is_err() => {
                return Err(refused("give a name such as Europe/Dublin, or an offset such as +01:00"));
            }
            "search_path" if !is_path(value) => return Err(refused("names without a schema are looked up in public")),
            "client_encoding" if !is_utf8(value) => return Err(refused("everything is UTF8")),
            "DateStyle" if !is_iso(value) => return Err(refused("dates are written as ISO has them")),
            "extra_float_digits" if !value.parse().is_ok_and(|digits| (-15..=3).contains(&digits)) => {
                return Err(refused("give -15 to 3"));
            }
            _ => (),
        }
        self.given.insert(name, value.to_owned());
        Ok(())
    }

    /// The value of `name`, whatever its case.
    ///
    /// # Errors
    /// `denied` for a name that is not known, with those that are.
    pub(crate) fn show(&self, name: &str) -> Result<&str, ApiError> {
        let (name, first) = known(name).ok_or_else(|| unknown(name))?;
        Ok(self.given.get(name).map_or(first, String::as_str))
    }

    /// Every name with its value.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, &str)> {
        KNOWN.iter().map(|(name, first)| (*name, self.given.get(name).map_or(*first, String::as_str)))
    }

    /// Takes back what was set under `name`, whatever its case; unknown names are nothing to take back.
    pub(crate) fn reset(&mut self, name: &str) {
        if let Some((name, _)) = known(name) {
            self.given.remove(name);
            if name == "statement_timeout" {
                self.timeout = None;
            }
        }
    }

    /// Asks under these settings.
    pub(crate) fn apply(&self, request: &mut SqlRequest) {
        if let Some(timeout) = self.timeout {
            let ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
            request.timeout_ms = Some(request.timeout_ms.map_or(ms, |asked| asked.min(ms)));
        }
        if request.time_zone.is_none() {
            request.time_zone = self.given.get("TimeZone").cloned();
        }
    }
}

fn known(name: &str) -> Option<(&'static str, &'static str)> {
    // SQL has a spelling of its own for this one.
    let name = if name.eq_ignore_ascii_case("time zone") { "TimeZone" } else { name };
    KNOWN.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name))
}

fn unknown(name: &str) -> ApiError {
    let names = KNOWN.map(|(name, _)| name).join(", ");
    ApiError {
        kind: "denied".to_owned(),
        message: format!("`{name}` is no setting of a connection"),
        hint: Some(format!("what may be set: {names}")),
    }
}

fn invalid(message: String) -> ApiError {
    ApiError { kind: "invalid".to_owned(), message, hint: None }
}

/// Without the quotes around all of it.
fn bare(value: &str) -> &str {
    let value = value.trim();
    let inner = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote).filter(|inner| !inner.contains(quote));
    inner('\'').or_else(|| inner('"')).unwrap_or(value)
}

/// Milliseconds, or a number with its unit.
fn duration(value: &str) -> Option<Duration> {
    let digits = value.trim_end_matches(|letter: char| letter.is_ascii_alphabetic() || letter == ' ');
    let unit_ms = match value.get(digits.len()..)?.trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit_ms).map(Duration::from_millis)
}

/// Whether the path leads to `public` before any other schema of ours.
fn is_path(value: &str) -> bool {
    let mut schemas = value.split(',').map(bare).filter(|schema| !["$user", "pg_catalog"].contains(schema));
    schemas.next() == Some("public") && schemas.all(|schema| ["system", "information_schema"].contains(&schema))
}

fn is_utf8(value: &str) -> bool {
    ["utf8", "utf-8", "unicode"].iter().any(|name| value.eq_ignore_ascii_case(name))
}

fn is_iso(value: &str) -> bool {
    let mut words = value.split(',').map(str::trim);
    words.next().is_some_and(|word| word.eq_ignore_ascii_case("iso"))
        && words.all(|word| ["mdy", "dmy", "ymd"].iter().any(|order| word.eq_ignore_ascii_case(order)))
}

#[cfg(test)]
mod tests {
    use telemetry::contract::SqlRequest;

    use super::Settings;

    fn set(name: &str, value: &str) -> Result<Settings, String> {
        let mut settings = Settings::default();
        settings.set(name, value).map(|()| settings).map_err(|error| error.kind)
    }

    #[test]
    fn what_clients_set_is_taken_and_shown() {
        for (name, value, shown) in [
            ("statement_timeout", "'10s'", "10s"),
            ("timezone", "Europe/Dublin", "Europe/Dublin"),
            ("TIME ZONE", "'+02:00'", "+02:00"),
            ("application_name", "'psql'", "psql"),
            ("search_path", "\"$user\", public", "\"$user\", public"),
            ("client_encoding", "'UTF-8'", "UTF-8"),
            ("datestyle", "ISO", "ISO"),
            ("extra_float_digits", "3", "3"),
        ] {
            assert_eq!(set(name, value).expect(name).show(name).expect(name), shown);
        }
        assert_eq!(Settings::default().show("TimeZone").map(str::to_owned), Ok("UTC".to_owned()));
        assert_eq!(Settings::default().all().count(), 7);
    }

    #[test]
    fn what_means_nothing_here_is_refused() {
        for (name, value, kind) in [
            ("datafusion.execution.batch_size", "1", "denied"),
            ("datafusion.runtime.memory_limit", "'100G'", "denied"),
            ("role", "admin", "denied"),
            ("statement_timeout", "soon", "invalid"),
            ("statement_timeout", "99999999999999999d", "invalid"),
            ("TimeZone", "Mars/Olympus", "invalid"),
            ("search_path", "system", "invalid"),
            ("client_encoding", "LATIN1", "invalid"),
            ("DateStyle", "German", "invalid"),
            ("extra_float_digits", "99", "invalid"),
        ] {
            assert_eq!(set(name, value), Err(kind.to_owned()), "{name} = {value}");
        }
        let error = Settings::default().set("work_mem", "1GB").expect_err("unknown");
        assert!(error.hint.is_some_and(|hint| hint.contains("statement_timeout")));
    }

    #[test]
    fn a_request_is_asked_under_them() {
        let mut settings = set("statement_timeout", "2min").expect("set");
        settings.set("TimeZone", "Asia/Tokyo").expect("set");
        let mut request = SqlRequest { timeout_ms: Some(500), ..SqlRequest::default() };
        settings.apply(&mut request);
        assert_eq!((request.timeout_ms, request.time_zone.as_deref()), (Some(500), Some("Asia/Tokyo")));
        settings.set("statement_timeout", "DEFAULT").expect("reset");
        settings.set("timezone", "default").expect("reset");
        let mut request = SqlRequest::default();
        settings.apply(&mut request);
        assert_eq!((request.timeout_ms, request.time_zone), (None, None));
    }
}
