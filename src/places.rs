//! The directories and the store a process needs, tried before anything is started on them.

use std::io::Write;
use std::path::Path;

use service::{Error, Kind};

use crate::failure::{CANNOT_CREATE, Failure};
use crate::settings::Config;

/// Makes sure that state, and data if it is local, can be written.
pub(crate) fn prepare(config: &Config) -> Result<(), Failure> {
    if let Some(data) = local(&config.data) {
        writable("data", Path::new(data))?;
    }
    writable("state", &config.state)
}

/// The directory that `data` names, unless it is an object store.
pub(crate) fn local(data: &str) -> Option<&str> {
    if let Some(path) = data.strip_prefix("file://") {
        return Some(path);
    }
    (!data.contains("://")).then_some(data)
}

/// Makes `dir` if need be and writes a file there.
pub(crate) fn writable(name: &str, dir: &Path) -> Result<(), Failure> {
    let failed = |what: &str, error: std::io::Error| {
        let hint = match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                format!(
                    "give the user that runs tokenwatt the right to write there, or choose another place with --{name}"
                )
            }
            std::io::ErrorKind::StorageFull => "the file system is full; make room there".to_owned(),
            _ => format!("choose another place with --{name}"),
        };
        let error = Error::new(Kind::Denied, format!("{name} directory {}: {what}", dir.display()))
            .with_source(error)
            .with_hint(hint);
        Failure::new(CANNOT_CREATE, error)
    };
    std::fs::create_dir_all(dir).map_err(|error| failed("cannot be made", error))?;
    let probe = dir.join(format!(".tokenwatt-probe-{}", std::process::id()));
    let written = std::fs::File::create(&probe).and_then(|mut file| {
        file.write_all(b"probe")?;
        file.sync_all()
    });
    let removed = if probe.exists() { std::fs::remove_file(&probe) } else { Ok(()) };
    written.and(removed).map_err(|error| failed("cannot be written", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file where the directory should be is reported with its path, and nothing is left behind by a good probe.
    #[test]
    fn probe_leaves_nothing_and_names_what_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let lake = dir.path().join("a/lake");
        writable("data", &lake).unwrap();
        assert_eq!(std::fs::read_dir(&lake).unwrap().count(), 0);

        let file = dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let failure = writable("state", &file.join("below")).unwrap_err();
        assert_eq!(failure.code, CANNOT_CREATE);
        assert!(failure.error.to_string().contains(&file.display().to_string()));
    }

    /// Only object stores are not local.
    #[test]
    fn local_places() {
        assert_eq!(local("./data"), Some("./data"));
        assert_eq!(local("file:///var/lake"), Some("/var/lake"));
        assert_eq!(local("s3://bucket/prefix"), None);
    }
}
