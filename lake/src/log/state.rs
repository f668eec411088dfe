//! What a log says when it is read up to a version. Pure: actions in, state out.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use service::{Error, Result};
use telemetry::table::{PARTITION, Table};

use super::action::{Action, Add, CommitInfo, Metadata, Protocol, Remove};
use super::schema::{self, Difference};
use super::stats;
use crate::snapshot::{File, Snapshot};

/// A table at one version.
#[derive(Clone, Debug)]
pub struct State {
    table: &'static Table,
    version: i64,
    committed_at_us: Option<i64>,
    checkpoint: Option<i64>,
    metadata: Option<Metadata>,
    difference: Difference,
    /// Live files by the order in which they were added.
    files: BTreeMap<u64, Arc<File>>,
    /// Where in `files` a path is.
    places: HashMap<String, u64>,
    next_place: u64,
    /// Greatest `time` of any live row, kept up so that a version costs no pass over all statistics.
    newest_time_us: Option<i64>,
    /// Last frame by journal.
    through: HashMap<String, i64>,
}

impl State {
    /// A table without any version.
    pub fn new(table: &'static Table) -> State {
        State {
            table,
            version: -1,
            committed_at_us: None,
            checkpoint: None,
            metadata: None,
            difference: Difference::None,
            files: BTreeMap::new(),
            places: HashMap::new(),
            next_place: 0,
            newest_time_us: None,
            through: HashMap::new(),
        }
    }

    /// The version, -1 before the first.
    pub fn version(&self) -> i64 {
        self.version
    }

    /// The newest checkpoint seen, if any.
    pub fn checkpoint(&self) -> Option<i64> {
        self.checkpoint
    }

    /// Notes that a checkpoint of `version` exists.
    pub fn set_checkpoint(&mut self, version: i64) {
        self.checkpoint = self.checkpoint.max(Some(version));
    }

    /// Schema and properties; `None` before the first version.
    pub fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_ref()
    }

    /// How the table's stored schema differs from the registry's.
    pub fn difference(&self) -> &Difference {
        &self.difference
    }

    /// The frame up to which a journal's rows are in the table.
    pub fn through(&self, journal: &str) -> Option<u64> {
        u64::try_from(*self.through.get(journal)?).ok()
    }

    /// Whether a file, named relative to the lake, is live.
    pub fn holds(&self, path: &str) -> bool {
        self.places.contains_key(path)
    }

    /// The live file of that path, relative to the lake.
    pub fn file(&self, path: &str) -> Option<&Arc<File>> {
        self.files.get(self.places.get(path)?)
    }

    /// Goes on to the next version, or to that of a checkpoint.
    ///
    /// # Errors
    /// `Corrupt` if a version is left out or a line is wrong, `Conflict` if the table needs abilities we do not have. The state is
    /// then unusable.
    pub fn apply(&mut self, version: i64, actions: &[Action]) -> Result<()> {
        if self.version >= 0 && version != self.version + 1 {
            let (table, known) = (self.table.name, self.version);
            return Err(Error::corrupt(format!("log of table {table} goes from version {known} to {version}")));
        }
        self.committed_at_us = None;
        for action in actions {
            self.apply_one(action)?;
        }
        self.version = version;
        if self.metadata.is_none() {
            return Err(Error::corrupt(format!(
                "log of table {} has no metadata up to version {version}",
                self.table.name
            )));
        }
        Ok(())
    }

    /// Takes the time of the version from its log entry, where the state itself came from a checkpoint.
    pub(crate) fn set_commit_time(&mut self, entry: &[Action]) {
        self.committed_at_us = entry.iter().filter_map(|action| committed_at(action.commit_info.as_ref()?)).next_back();
    }

    /// What a reader sees.
    pub fn snapshot(&self) -> Snapshot {
        let files: Vec<_> = self.files.values().cloned().collect();
        Snapshot {
            table: self.table,
            version: self.version,
            committed_at_us: self.committed_at_us,
            files,
            newest_time_us: self.newest_time_us,
        }
    }

    fn apply_one(&mut self, action: &Action) -> Result<()> {
        if let Some(info) = &action.commit_info {
            self.committed_at_us = committed_at(info);
        }
        if let Some(protocol) = &action.protocol {
            schema::supported(self.table, protocol)?;
        }
        if let Some(metadata) = &action.meta_data {
            self.difference = schema::compare(self.table, metadata)?;
            self.metadata = Some(metadata.clone());
        }
        if let Some(txn) = &action.txn {
            self.through.insert(txn.app_id.clone(), txn.version);
        }
        if let Some(remove) = &action.remove {
            self.forget(&lake_path(self.table, &remove.path));
        }
        if let Some(add) = &action.add {
            self.remember(file_of(self.table, add)?);
        }
        Ok(())
    }

    fn remember(&mut self, file: File) {
        self.forget(&file.path);
        self.newest_time_us = self.newest_time_us.max(file.newest_time_us());
        self.places.insert(file.path.clone(), self.next_place);
        self.files.insert(self.next_place, Arc::new(file));
        self.next_place += 1;
    }

    fn forget(&mut self, path: &str) {
        let Some(file) = self.places.remove(path).and_then(|place| self.files.remove(&place)) else { return };
        if file.newest_time_us() == self.newest_time_us {
            self.newest_time_us = self.files.values().filter_map(|file| file.newest_time_us()).max();
        }
    }
}

/// The protocol line of a new table.
pub(crate) fn protocol_action() -> Action {
    let protocol: Protocol = schema::PROTOCOL;
    Action { protocol: Some(protocol), ..Action::default() }
}

/// The line that adds a file.
pub(crate) fn add_action(table: &Table, file: &File, data_change: bool) -> Action {
    let tags = file.tags.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect::<BTreeMap<_, _>>();
    let add = Add {
        path: file.path_in_table(table).to_owned(),
        partition_values: BTreeMap::from([(PARTITION.to_owned(), Some(file.date.clone()))]),
        size: i64::try_from(file.size).unwrap_or(i64::MAX),
        modification_time: file.modified_ms,
        data_change,
        stats: Some(stats::encode(file)),
        tags: if tags.is_empty() { None } else { Some(tags) },
    };
    Action { add: Some(add), ..Action::default() }
}

/// The line that removes a file.
pub(crate) fn remove_action(table: &Table, file: &File, data_change: bool, now_ms: i64) -> Action {
    let remove = Remove {
        path: file.path_in_table(table).to_owned(),
        deletion_timestamp: Some(now_ms),
        data_change,
        extended_file_metadata: Some(true),
        partition_values: Some(BTreeMap::from([(PARTITION.to_owned(), Some(file.date.clone()))])),
        size: i64::try_from(file.size).ok(),
    };
    Action { remove: Some(remove), ..Action::default() }
}

fn committed_at(info: &CommitInfo) -> Option<i64> {
    info.timestamp_us.or_else(|| info.timestamp?.checked_mul(1_000))
}

/// A path as the log has it, relative to the lake.
pub(super) fn lake_path(table: &Table, encoded: &str) -> String {
    format!("{}/{}", table.name, percent_decode_str(encoded).decode_utf8_lossy())
}

/// The file that a line adds.
pub(crate) fn file_of(table: &Table, add: &Add) -> Result<File> {
    let wrong = |what: &str| Error::corrupt(format!("file `{}` of table {} has {what}", add.path, table.name));
    let (rows, stats) = add.stats.as_deref().map_or((None, BTreeMap::new()), |text| stats::decode(table, text));
    let date = add.partition_values.get(PARTITION).cloned().flatten().ok_or_else(|| wrong("no date"))?;
    let tags = add.tags.iter().flatten().filter_map(|(key, value)| Some((key.clone(), value.clone()?)));
    Ok(File {
        path: lake_path(table, &add.path),
        size: u64::try_from(add.size).map_err(|_| wrong("a negative size"))?,
        rows,
        date,
        modified_ms: add.modification_time,
        stats,
        tags: tags.collect(),
    })
}

#[cfg(test)]
mod tests;
