//! `tokenwatt.lake.v1.Commit`: how a collector hands an entry to the process that commits for all.
//!
//! ```proto
//! service Commit { rpc Commit(CommitRequest) returns (CommitResponse); }
//! ```
//!
//! A file is named by date and name, never by path: where it lies follows from the table, so no message can reach outside.

use std::collections::{BTreeMap, HashMap};

use service::{Error, Result};
use telemetry::table;

use super::{Entry, Outcome};
use crate::layout;
use crate::log::stats;
use crate::snapshot::File;

/// Path of the only method.
pub const METHOD: &str = "/tokenwatt.lake.v1.Commit/Commit";
/// Files of one entry: a flush makes one for each date, of which there are at most 32.
const ADDS_MAX: usize = 64;

/// An entry.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CommitRequest {
    /// Id of the journal.
    #[prost(string, tag = "1")]
    pub journal: String,
    /// Table.
    #[prost(string, tag = "2")]
    pub table: String,
    /// Last frame before these.
    #[prost(uint64, tag = "3")]
    pub from: u64,
    /// Last frame of these.
    #[prost(uint64, tag = "4")]
    pub to: u64,
    /// The files, already written.
    #[prost(message, repeated, tag = "5")]
    pub adds: Vec<AddFile>,
}

/// One file.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AddFile {
    /// Partition, `YYYY-MM-DD`.
    #[prost(string, tag = "1")]
    pub date: String,
    /// Name in the partition's folder.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Bytes.
    #[prost(uint64, tag = "3")]
    pub size: u64,
    /// When it was written, milliseconds since 1970-01-01 UTC.
    #[prost(int64, tag = "4")]
    pub modified_ms: i64,
    /// Row count and bounds, as the JSON text that Delta keeps.
    #[prost(string, tag = "5")]
    pub stats: String,
    /// Notes of the writer.
    #[prost(map = "string, string", tag = "6")]
    pub tags: HashMap<String, String>,
}

/// What became of the entry.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CommitResponse {
    /// One of the two.
    #[prost(oneof = "Answer", tags = "1, 2")]
    pub answer: Option<Answer>,
}

/// What became of an entry.
#[derive(Clone, Copy, PartialEq, Eq, prost::Oneof)]
pub enum Answer {
    /// Committed by this Delta version.
    #[prost(int64, tag = "1")]
    Version(i64),
    /// Not applied: the table holds the journal's rows through this frame.
    #[prost(uint64, tag = "2")]
    Through(u64),
}

impl CommitRequest {
    /// The message for an entry.
    pub fn of(entry: &Entry) -> CommitRequest {
        let add = |file: &File| AddFile {
            date: file.date.clone(),
            name: file.path.rsplit('/').next().unwrap_or_default().to_owned(),
            size: file.size,
            modified_ms: file.modified_ms,
            stats: stats::encode(file),
            tags: file.tags.clone().into_iter().collect(),
        };
        let adds = entry.adds.iter().map(add).collect();
        CommitRequest {
            journal: entry.journal.clone(),
            table: entry.table.to_owned(),
            from: entry.from,
            to: entry.to,
            adds,
        }
    }

    /// The entry, if its files can only be the journal's own.
    ///
    /// # Errors
    /// `NotFound` for a table that there is not, `Invalid`.
    pub fn entry(self) -> Result<Entry> {
        let unknown = || Error::not_found(format!("there is no table `{}`", self.table));
        let table = table::by_name(&self.table).ok_or_else(unknown)?;
        let (from, to) = (self.from, self.to);
        let named = self.journal.len() <= 64 && self.journal.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if self.journal.is_empty() || !named {
            return Err(Error::invalid("a journal is named by at most 64 letters, digits and dashes"));
        }
        if self.adds.len() > ADDS_MAX {
            return Err(Error::invalid(format!("{} files in one entry, more than {ADDS_MAX}", self.adds.len())));
        }
        let prefix = format!("{}-{from}-{to}-", self.journal);
        let file = |add: AddFile| {
            let unique = add.name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(".parquet"));
            if !unique.is_some_and(|unique| !unique.is_empty() && unique.bytes().all(|b| b.is_ascii_alphanumeric())) {
                return Err(Error::invalid(format!("file `{}` is not of {prefix}….parquet", add.name)));
            }
            let path = layout::data_path(table, &add.date, &add.name)?;
            let (rows, stats) = stats::decode(table, &add.stats);
            let tags: BTreeMap<_, _> = add.tags.into_iter().collect();
            Ok(File { path, size: add.size, rows, date: add.date, modified_ms: add.modified_ms, stats, tags })
        };
        let adds = self.adds.into_iter().map(file).collect::<Result<_>>()?;
        Ok(Entry { journal: self.journal, table: table.name, from, to, adds })
    }
}

impl CommitResponse {
    /// The message for an outcome.
    pub fn of(outcome: Outcome) -> CommitResponse {
        let answer = match outcome {
            Outcome::Committed { version } => Answer::Version(version),
            Outcome::Through(frame) => Answer::Through(frame),
        };
        CommitResponse { answer: Some(answer) }
    }

    /// The outcome; `None` if the message says nothing.
    pub fn outcome(&self) -> Option<Outcome> {
        match self.answer? {
            Answer::Version(version) => Some(Outcome::Committed { version }),
            Answer::Through(frame) => Some(Outcome::Through(frame)),
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use service::Kind;

    use super::{AddFile, CommitRequest, CommitResponse};
    use crate::Outcome;
    use crate::sample::{entry, lake};

    #[tokio::test]
    async fn an_entry_survives_the_wire_with_its_statistics_and_tags() {
        let folder = tempfile::tempdir().expect("a folder");
        let lake = lake(&folder).await;
        let mut sent = entry(&lake, "j", 3).await.expect("written");
        sent.adds[0].tags.insert("minutes".to_owned(), "3-5,9".to_owned());
        let bytes = CommitRequest::of(&sent).encode_to_vec();
        let received = CommitRequest::decode(bytes.as_slice()).expect("a message").entry().expect("an entry");
        assert_eq!(received, sent);
        for outcome in [Outcome::Committed { version: 0 }, Outcome::Through(7)] {
            let bytes = CommitResponse::of(outcome).encode_to_vec();
            assert_eq!(CommitResponse::decode(bytes.as_slice()).expect("a message").outcome(), Some(outcome));
        }
        assert_eq!(CommitResponse::default().outcome(), None);
    }

    #[test]
    fn files_that_are_not_the_journals_own_are_refused() {
        let request = |journal: &str, table: &str, date: &str, name: &str| CommitRequest {
            journal: journal.to_owned(),
            table: table.to_owned(),
            from: 0,
            to: 1,
            adds: vec![AddFile { date: date.to_owned(), name: name.to_owned(), ..AddFile::default() }],
        };
        assert!(request("j", "tokens", "2026-11-29", "j-0-1-ab.parquet").entry().is_ok());
        for (journal, date, name) in [
            ("j", "2026-11-29", "k-0-1-ab.parquet"),
            ("j", "2026-11-29", "j-0-2-ab.parquet"),
            ("j", "2026-11-29", "j-0-1-.parquet"),
            ("j", "2026-11-29", "j-0-1-../../x.parquet"),
            ("j", "2026-11-29", "../j-0-1-ab.parquet"),
            ("j", "2026-11-29", "j-0-1-ab.parquet/../../../requests/x.parquet"),
            ("j", "2026-11-29", "j-0-1-%2e%2e%2f.parquet"),
            ("j", "../2026-11", "j-0-1-ab.parquet"),
            ("j", "", "j-0-1-ab.parquet"),
            ("../j", "2026-11-29", "../j-0-1-ab.parquet"),
            ("", "2026-11-29", "-0-1-ab.parquet"),
        ] {
            let error = request(journal, "tokens", date, name).entry().expect_err(name);
            assert_eq!(error.kind(), Kind::Invalid, "{journal} {date} {name}");
        }
        let unknown = request("j", "_delta_log", "2026-11-29", "j-0-1-ab.parquet").entry().expect_err("no table");
        assert_eq!(unknown.kind(), Kind::NotFound);
        let many = CommitRequest { adds: vec![AddFile::default(); 65], ..request("j", "tokens", "", "") };
        assert_eq!(many.entry().expect_err("too many").kind(), Kind::Invalid);
    }
}
