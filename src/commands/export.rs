//! `tokenwatt export`: files for other programs, as this version of the binary has them.

mod focus;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use service::{Error, Kind};

use crate::cli::Common;
use crate::failure::{CANNOT_CREATE, Failure};
use crate::print;

#[derive(Subcommand)]
pub(crate) enum Export {
    /// Grafana's dashboards, with the files that provision them and their data source
    Dashboards(Dashboards),
    /// Alert rules for Prometheus
    Rules(Rules),
    /// What each hour cost and for whom, as FOCUS 1.4 rows
    Focus(focus::Focus),
}

#[derive(Args)]
pub(crate) struct Dashboards {
    #[command(flatten)]
    place: Place,
    /// Name of the data source in Grafana, which is its uid too
    #[arg(long, value_name = "NAME", default_value = SOURCE, value_parser = source)]
    datasource: String,
}

#[derive(Args)]
pub(crate) struct Rules {
    #[command(flatten)]
    place: Place,
}

/// Where the files go.
#[derive(Args)]
struct Place {
    /// Directory to write them to; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Replace files that are there and say something else
    #[arg(long)]
    force: bool,
}

/// A file and its text.
type File = (&'static str, &'static str);

macro_rules! files {
    ($folder:literal: $($path:literal),+ $(,)?) => {
        [$(($path, include_str!(concat!("../../deploy/", $folder, "/", $path)))),+]
    };
}

const DASHBOARDS: [File; 6] = files!("grafana":
    "dashboards/fleet.json",
    "dashboards/latency.json",
    "dashboards/cost.json",
    "dashboards/slo.json",
    "provisioning/dashboards/tokenwatt.yaml",
    "provisioning/datasources/tokenwatt.yaml",
);
const RULES: [File; 1] = files!("prometheus": "tokenwatt.rules.yml");

/// What the data source is called in the files as they are kept.
const SOURCE: &str = "tokenwatt";
/// Longest uid that Grafana takes.
const SOURCE_LENGTH_MAX: usize = 40;

pub(crate) async fn run(common: &Common, export: &Export) -> Result<(), Failure> {
    match export {
        Export::Focus(flags) => focus::run(common, flags).await,
        Export::Dashboards(flags) => {
            let files = DASHBOARDS.map(|(path, text)| (path, asking(&flags.datasource, text)));
            write(&flags.place, &files)
        }
        Export::Rules(flags) => write(&flags.place, &RULES.map(|(path, text)| (path, text.to_owned()))),
    }
}

/// The same file with another data source.
fn asking(source: &str, text: &str) -> String {
    let json = text.replace(&format!("\"uid\": \"{SOURCE}\""), &format!("\"uid\": \"{source}\""));
    // of the two provisioning files only that of the data source has a uid
    let yaml = format!("  - name: {SOURCE}\n    uid: {SOURCE}\n");
    json.replace(&yaml, &format!("  - name: {source}\n    uid: {source}\n"))
}

/// A name that may be a uid in Grafana.
fn source(name: &str) -> Result<String, String> {
    let is_plain = name.chars().all(|each| each.is_ascii_alphanumeric() || matches!(each, '-' | '_'));
    if is_plain && (1..=SOURCE_LENGTH_MAX).contains(&name.len()) {
        return Ok(name.to_owned());
    }
    Err(format!("a name has 1 to {SOURCE_LENGTH_MAX} of the letters a-z, A-Z, digits, `-` and `_`"))
}

/// Writes all or none: what would be replaced is looked for first.
fn write(place: &Place, files: &[(&str, String)]) -> Result<(), Failure> {
    let files: Vec<(PathBuf, &String)> = files.iter().map(|(path, text)| (place.to.join(path), text)).collect();
    if !place.force {
        for (path, text) in &files {
            refuse_other(path, text)?;
        }
    }
    for (path, text) in &files {
        let folder = path.parent().unwrap_or(&place.to);
        std::fs::create_dir_all(folder).map_err(|error| cannot("make", folder, error))?;
        std::fs::write(path, text).map_err(|error| cannot("write", path, error))?;
        print::line(path.display().to_string());
    }
    Ok(())
}

fn refuse_other(path: &Path, text: &str) -> Result<(), Failure> {
    match std::fs::read(path) {
        Ok(found) if found == text.as_bytes() => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(_) => {
            let error = Error::new(Kind::Conflict, format!("{} is there and says something else", path.display()));
            Err(error.with_hint("compare it and use --force to replace it, or write to another directory").into())
        }
        Err(error) => Err(cannot("read", path, error)),
    }
}

fn cannot(verb: &str, path: &Path, source: std::io::Error) -> Failure {
    let error = Error::invalid(format!("cannot {verb} {}", path.display())).with_source(source);
    Failure::new(CANNOT_CREATE, error)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Every data source that a dashboard names.
    fn sources(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::Object(source)) = fields.get("datasource") {
                    found.push(source["uid"].as_str().unwrap().to_owned());
                }
                fields.values().for_each(|field| sources(field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| sources(item, found)),
            _ => (),
        }
    }

    /// Dashboards and provisioning agree on the name, and it is in nothing else: the dashboards' own uids stay.
    #[test]
    fn another_data_source_is_named_everywhere() {
        for (path, text) in DASHBOARDS {
            let (named, plain) = (asking("prod-eu", text), asking(SOURCE, text));
            assert_eq!(plain, text, "{path}");
            if path.ends_with(".json") {
                let mut found = Vec::new();
                let board: Value = serde_json::from_str(&named).unwrap();
                sources(&board, &mut found);
                assert!(found.len() > 10 && found.iter().all(|uid| uid == "prod-eu"), "{path}: {found:?}");
                assert!(board["uid"].as_str().unwrap().starts_with("tokenwatt-"), "{path}");
            }
        }
        let source = asking("prod-eu", DASHBOARDS[5].1);
        assert!(source.contains("- name: prod-eu\n    uid: prod-eu\n"), "{source}");
    }

    #[test]
    fn a_name_that_grafana_refuses_is_refused() {
        assert_eq!(source("Tokenwatt_eu-1"), Ok("Tokenwatt_eu-1".to_owned()));
        for name in ["", "two words", "a\"b", &"x".repeat(41)] {
            assert!(source(name).is_err(), "{name}");
        }
    }

    /// What somebody has changed is not lost; what is the same may be written again.
    #[test]
    fn a_changed_file_stays() {
        let directory = tempfile::tempdir().unwrap();
        let place = |force| Place { to: directory.path().join("new/rules"), force };
        let files = [("a.yml", "one".to_owned()), ("b/c.yml", "two".to_owned())];
        write(&place(false), &files).unwrap();
        write(&place(false), &files).unwrap();
        let changed = place(false).to.join("b/c.yml");
        std::fs::write(&changed, "mine").unwrap();
        let more = [("d.yml", "three".to_owned()), ("b/c.yml", "two".to_owned())];
        let refused = write(&place(false), &more).unwrap_err();
        assert!(refused.error.to_string().contains("c.yml is there"), "{}", refused.error);
        assert!(!place(false).to.join("d.yml").exists(), "all or none");
        assert_eq!(std::fs::read_to_string(&changed).unwrap(), "mine");
        write(&place(true), &more).unwrap();
        assert_eq!(std::fs::read_to_string(&changed).unwrap(), "two");
    }
}
