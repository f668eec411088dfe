use std::time::Duration;

use serde::Deserialize;

use super::*;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Collector {
    addr: String,
    #[serde(with = "duration")]
    flush_after: Duration,
    #[serde(with = "bytes")]
    flush_bytes: u64,
    workers: usize,
}

impl Default for Collector {
    fn default() -> Self {
        let flush_after = Duration::from_secs(1);
        Self { addr: "127.0.0.1:4317".to_owned(), flush_after, flush_bytes: 32 << 20, workers: 2 }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    data: Option<String>,
    collector: Collector,
    keys: Vec<Key>,
    fleet_secret: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    key: String,
    tenant: String,
}

impl Settings for Config {
    fn validate(&self, faults: &mut Vec<String>) {
        if self.collector.workers == 0 {
            faults.push("`collector.workers` must be at least 1".to_owned());
        }
    }
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn write(text: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokenwatt.toml");
    std::fs::write(&path, text).unwrap();
    (dir, path)
}

/// A flag beats the environment, which beats the file, which beats the default; each value knows its source.
#[test]
fn later_places_win_and_are_named() {
    let (_dir, file) = write("[collector]\nflush_after = \"2s\"\nflush_bytes = \"1MiB\"\nworkers = 3\n");
    let places = Places {
        file: Some(file.clone()),
        env: pairs(&[
            ("TOKENWATT__COLLECTOR__FLUSH_BYTES", "2MiB"),
            ("TOKENWATT__COLLECTOR__WORKERS", "4"),
            ("HOME", "/root"),
        ]),
        flags: pairs(&[("collector.workers", "5")]),
    };
    let loaded = load::<Config>(&places).unwrap();
    let collector = &loaded.config.collector;
    assert_eq!(collector.addr, "127.0.0.1:4317");
    assert_eq!(collector.flush_after, Duration::from_secs(2));
    assert_eq!(collector.flush_bytes, 2 << 20);
    assert_eq!(collector.workers, 5);

    let source = |key: &str| loaded.values.iter().find(|v| v.key == key).unwrap().source.clone();
    assert_eq!(source("collector.addr"), "default");
    assert_eq!(source("collector.flush_after"), file.display().to_string());
    assert_eq!(source("collector.flush_bytes"), "environment variable TOKENWATT__COLLECTOR__FLUSH_BYTES");
    assert_eq!(source("collector.workers"), "flag for collector.workers");
}

/// Every fault of every place is in one report: unknown keys, wrong types, broken rules.
#[test]
fn all_faults_are_listed_at_once() {
    let (_dir, file) = write("colour = 1\n[collector]\nflush_aftr = \"2s\"\nflush_bytes = \"many\"\n");
    let places = Places {
        file: Some(file.clone()),
        env: pairs(&[("TOKENWATT__QUERY__SPEED", "9")]),
        flags: pairs(&[("collector.workers", "0")]),
    };
    let error = load::<Config>(&places).unwrap_err();
    assert_eq!(error.kind(), crate::Kind::Invalid);
    let text = error.to_string();
    let file = file.display();
    for expected in [
        "5 faults".to_owned(),
        format!("{file}: unknown key `colour`; known here: data, collector, keys, fleet_secret"),
        format!("{file}: unknown key `collector.flush_aftr`; did you mean `flush_after`?"),
        format!("{file}: `collector.flush_bytes`: `many` is no size"),
        "environment variable TOKENWATT__QUERY__SPEED: unknown key `query`".to_owned(),
        "`collector.workers` must be at least 1".to_owned(),
    ] {
        assert!(text.contains(&expected), "{expected}\nnot in\n{text}");
    }
}

/// A secret is read, and never shown.
#[test]
fn secrets_are_not_shown() {
    let (_dir, file) = write("fleet_secret = \"abc\"\n[[keys]]\nkey = \"sk-1\"\ntenant = \"acme\"\n");
    let loaded = load::<Config>(&Places { file: Some(file), ..Places::default() }).unwrap();
    assert_eq!(loaded.config.fleet_secret.as_deref(), Some("abc"));
    assert_eq!(loaded.config.keys[0].key, "sk-1");
    let shown: String = loaded.values.iter().map(|value| value.value.clone()).collect();
    assert!(shown.contains("acme") && !shown.contains("abc") && !shown.contains("sk-1"), "{shown}");
}

/// A file that is no TOML, or is not there, is one fault that names the file.
#[test]
fn unreadable_file_is_named() {
    let (_dir, file) = write("[collector\n");
    let error = load::<Config>(&Places { file: Some(file.clone()), ..Places::default() }).unwrap_err();
    assert!(error.to_string().contains(&file.display().to_string()), "{error}");

    let error = load::<Config>(&Places { file: Some("/nowhere/t.toml".into()), ..Places::default() }).unwrap_err();
    assert!(error.to_string().contains("/nowhere/t.toml: cannot be read"), "{error}");
}

/// Durations and sizes read back what they print, and refuse what has no unit.
#[test]
fn units_round_trip() {
    for text in ["0ms", "250ms", "2s", "15m", "36h", "7d"] {
        assert_eq!(duration::format(duration::parse(text).unwrap()), text);
    }
    for text in ["0B", "100B", "512KiB", "64MiB", "3TiB"] {
        assert_eq!(bytes::format(bytes::parse(text).unwrap()), text);
    }
    for text in ["", "5", "s", "-1s", "1.5s", "99999999999999999999s", "18446744073709551615d"] {
        assert!(duration::parse(text).is_err(), "{text}");
    }
    assert!(bytes::parse("12MB").is_err());
}

/// A date is one in quotes or not, with a time or not; without an offset it is UTC.
#[test]
fn dates_are_read_as_they_are_written() {
    #[derive(Debug, Deserialize, Serialize)]
    struct Dated {
        #[serde(default, with = "instant::option", skip_serializing_if = "Option::is_none")]
        expires: Option<jiff::Timestamp>,
    }
    let read = |written: &str| {
        let dated = Figment::from(Toml::string(&format!("expires = {written}"))).extract::<Dated>();
        dated.map(|dated| dated.expires.map(|at| at.to_string())).map_err(|error| error.to_string())
    };
    for (written, meant) in [
        ("\"2027-03-01\"", "2027-03-01T00:00:00Z"),
        ("2027-03-01", "2027-03-01T00:00:00Z"),
        ("\"2027-03-01T09:00:00Z\"", "2027-03-01T09:00:00Z"),
        ("2027-03-01T09:00:00+02:00", "2027-03-01T07:00:00Z"),
        ("\"2027-03-01 09:30:00\"", "2027-03-01T09:30:00Z"),
    ] {
        assert_eq!(read(written).unwrap().as_deref(), Some(meant), "{written}");
    }
    for wrong in ["\"soon\"", "\"2027-02-30\"", "7", "09:00:00"] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
    assert!(Figment::new().extract::<Dated>().unwrap().expires.is_none());
}
