//! Lines of a Delta commit, as the protocol spells them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use service::{Error, Result};

/// One line of a commit, or one row of a checkpoint. Exactly one field is set; kinds of lines we have no use for leave all empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Action {
    /// Who committed, when and what for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_info: Option<CommitInfo>,
    /// What a reader and a writer must understand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Schema, partitioning and properties.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<Metadata>,
    /// How far an application has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub txn: Option<Txn>,
    /// A file that now belongs to the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add: Option<Add>,
    /// A file that no longer does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove: Option<Remove>,
}

/// Who committed, when and what for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitInfo {
    /// Milliseconds since 1970-01-01 UTC.
    #[serde(default)]
    pub timestamp: Option<i64>,
    /// What was done, such as `WRITE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Program that committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_info: Option<String>,
    /// Unique per attempt, so that a writer recognises its own commit after an unanswered PUT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub txn_id: Option<String>,
    /// Microseconds since 1970-01-01 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp_us: Option<i64>,
}

/// What a reader and a writer must understand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Protocol {
    /// Lowest protocol version of a reader.
    pub min_reader_version: i32,
    /// Lowest protocol version of a writer.
    pub min_writer_version: i32,
}

/// Schema, partitioning and properties.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Identity of the table.
    pub id: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Format of its files.
    pub format: Format,
    /// Schema as JSON text.
    pub schema_string: String,
    /// Columns that lie in the path.
    pub partition_columns: Vec<String>,
    /// Properties.
    #[serde(default)]
    pub configuration: BTreeMap<String, Option<String>>,
    /// Milliseconds since 1970-01-01 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_time: Option<i64>,
}

/// Format of a table's files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Format {
    /// Always `parquet`.
    pub provider: String,
    /// Always empty.
    #[serde(default)]
    pub options: BTreeMap<String, Option<String>>,
}

/// How far an application has come. Ours are journals, and `version` is the frame up to which their rows are in the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Txn {
    /// Journal.
    pub app_id: String,
    /// Last frame.
    pub version: i64,
    /// Milliseconds since 1970-01-01 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<i64>,
}

/// A file that now belongs to the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Add {
    /// Path relative to the table, percent-encoded.
    pub path: String,
    /// Values of the partition columns.
    #[serde(default)]
    pub partition_values: BTreeMap<String, Option<String>>,
    /// Bytes.
    pub size: i64,
    /// Milliseconds since 1970-01-01 UTC.
    pub modification_time: i64,
    /// Whether rows changed; false for compaction.
    pub data_change: bool,
    /// Row count and bounds as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<String>,
    /// Notes of the writer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, Option<String>>>,
}

/// A file that no longer belongs to the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remove {
    /// Path relative to the table, percent-encoded.
    pub path: String,
    /// Milliseconds since 1970-01-01 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<i64>,
    /// Whether rows changed; false for compaction.
    #[serde(default)]
    pub data_change: bool,
    /// Whether the three fields below are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extended_file_metadata: Option<bool>,
    /// Values of the partition columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_values: Option<BTreeMap<String, Option<String>>>,
    /// Bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
}

impl Action {
    /// A line that says who committed.
    pub fn info(info: CommitInfo) -> Action {
        Action { commit_info: Some(info), ..Action::default() }
    }

    /// A line that says how far an application has come.
    pub fn txn(app_id: &str, version: i64, now_ms: i64) -> Action {
        let txn = Txn { app_id: app_id.to_owned(), version, last_updated: Some(now_ms) };
        Action { txn: Some(txn), ..Action::default() }
    }
}

/// The lines of a commit as one body.
///
/// # Errors
/// `Internal` if a line cannot be written as JSON.
pub fn encode(actions: &[Action]) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    for action in actions {
        serde_json::to_writer(&mut body, action).map_err(|e| Error::internal("write a log entry").with_source(e))?;
        body.push(b'\n');
    }
    Ok(body)
}

/// Reads the lines of a commit.
///
/// # Errors
/// `Corrupt` if a line is no JSON object of the protocol.
pub fn decode(body: &[u8]) -> Result<Vec<Action>> {
    serde_json::Deserializer::from_slice(body)
        .into_iter::<Action>()
        .collect::<Result<_, _>>()
        .map_err(|e| Error::corrupt("read a log entry").with_source(e))
}

/// The id of the attempt that wrote these lines.
pub fn attempt(actions: &[Action]) -> Option<&str> {
    actions.iter().find_map(|action| action.commit_info.as_ref()?.txn_id.as_deref())
}

#[cfg(test)]
mod tests {
    use super::{Action, attempt, decode, encode};

    #[test]
    fn lines_of_other_writers_are_read() {
        let body = br#"{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}
{"domainMetadata":{"domain":"x","configuration":"","removed":false}}
{"commitInfo":{"timestamp":17,"operation":"WRITE","txnId":"a","operationParameters":{"mode":"Append"}}}
{"add":{"path":"date=2026-11-29/x.parquet","partitionValues":{"date":"2026-11-29"},"size":3,"modificationTime":1,"dataChange":true,"baseRowId":4}}
"#;
        let actions = decode(body).expect("valid lines");
        assert_eq!((actions.len(), attempt(&actions)), (4, Some("a")));
        assert_eq!(actions[1], Action::default());
        assert_eq!(actions[3].add.as_ref().expect("an add").size, 3);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let actions = vec![Action::txn("journal", 9, 5)];
        assert_eq!(decode(&encode(&actions).expect("plain data")).expect("own lines"), actions);
    }

    #[test]
    fn a_torn_entry_is_an_error() {
        assert!(decode(br#"{"txn":{"appId":"j","ver"#).is_err());
    }
}
