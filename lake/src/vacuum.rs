//! Deleting files that nobody can want any more. Nothing else in Tokenwatt deletes a data file.
//!
//! ```text
//! list what lies there ─► read the log ─► judge each file ─► fence off who might still commit one ─► delete
//! ```
//!
//! A file that the newest version names is never touched. One that was replaced or dropped stays for a grace period, so that
//! queries under way, readers of older versions and other engines keep what they opened. One that no version ever named is an
//! orphan of a crash: it goes once it is old and it is certain that nobody can commit it any more: a journal, because the table
//! holds its frames by other files; a merge, because the log counts sweeps and refuses what was begun before the last one. The log itself keeps what is needed to
//! read every version of the grace period.

use std::collections::HashMap;

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};
use service::Result;
use telemetry::table::{PARTITION, Table};

use crate::commit::{sweep, sweeps};
use crate::lake::Lake;
use crate::layout::Maker;
use crate::log::State;
use crate::store::failure;

/// Files deleted in one go; what is left is left for the next.
const DELETES_MAX: usize = 10_000;

/// How long entries of the log stay at least, however soon replaced files go: a process that slept for less than this finds
/// all that was committed meanwhile. Milliseconds.
const ENTRIES_MS: i64 = 3_600_000;

/// How long files stay that the newest version does not name. Milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grace {
    /// After they were replaced or dropped.
    pub(crate) replaced_ms: i64,
    /// After they were written, if no version ever named them.
    pub(crate) orphan_ms: i64,
}

/// What was found, and what was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Swept {
    /// Bytes that the newest version names.
    pub(crate) live_bytes: u64,
    /// Bytes of files that were replaced or dropped and stay for now.
    pub(crate) replaced_bytes: u64,
    /// Bytes of files that no version names and that stay for now.
    pub(crate) orphan_bytes: u64,
    /// Files deleted.
    pub(crate) deleted: u64,
    /// Their bytes.
    pub(crate) deleted_bytes: u64,
    /// Entries and checkpoints of the log deleted.
    pub(crate) log_entries: u64,
}

/// What is to become of a file.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Live,
    Replaced,
    Orphan,
    Delete,
}

/// Deletes what a table no longer needs.
///
/// # Errors
/// `Corrupt`, `Unavailable`, `Denied`.
///
/// # Cancel safety
/// A dropped call has deleted some of it; the next one deletes the rest.
pub(crate) async fn vacuum(lake: &Lake, table: &'static Table, grace: Grace, now_ms: i64) -> Result<Swept> {
    // Listed before the log is read: what is committed in between is in the log, and what is written in between is not listed.
    let objects = list(lake, table).await?;
    // Read from the store and not from memory: a process that slept may remember a log whose next entries are gone. What was
    // removed is read after what is there, so that a file on its way from one to the other is in at least one.
    let log = &lake.shelf(table.name)?.head.log;
    let mut swept = Swept::default();
    // Not a table yet, or a log that cannot be seen: either way nothing is known of any file.
    let Some(mut state) = log.load(None).await? else { return Ok(swept) };
    let mut removed = log.removed().await?;
    let merge = |object: &ObjectMeta| Maker::of(object.location.filename().unwrap_or_default()) == Maker::Merge;
    let old = |object: &ObjectMeta| judge(object, &state, &removed, grace, now_ms) == Fate::Delete;
    let named = |object: &ObjectMeta| removed.contains_key(object.location.as_ref());
    if objects.iter().any(|object| merge(object) && old(object) && !named(object)) {
        // Whoever still works on one of them is refused from here on, and finds somebody else's sweep as good as ours.
        lake.commit(sweep(table, sweeps(&state))).await?;
        let Some(newest) = log.load(None).await? else { return Ok(swept) };
        (state, removed) = (newest, log.removed().await?);
    }
    let mut deletes = Vec::new();
    for object in objects {
        match judge(&object, &state, &removed, grace, now_ms) {
            Fate::Live => swept.live_bytes += object.size,
            Fate::Replaced => swept.replaced_bytes += object.size,
            Fate::Delete if deletes.len() < DELETES_MAX => {
                swept.deleted += 1;
                swept.deleted_bytes += object.size;
                deletes.push(object.location);
            }
            Fate::Orphan | Fate::Delete => swept.orphan_bytes += object.size,
        }
    }
    lake.delete(deletes).await?;
    let entries_ms = grace.replaced_ms.max(ENTRIES_MS);
    swept.log_entries = log.clean_up(now_ms.saturating_sub(entries_ms), DELETES_MAX).await? as u64;
    if swept.deleted > 0 {
        let (files, bytes) = (swept.deleted, swept.deleted_bytes);
        tracing::info!(
            table = table.name,
            files,
            bytes,
            "deleted files that were replaced, dropped or never committed"
        );
    }
    Ok(swept)
}

/// All files in a table's folders. The log has none of them.
async fn list(lake: &Lake, table: &Table) -> Result<Vec<ObjectMeta>> {
    let (store, folder) = (lake.store(), Path::from(table.name));
    let failed = |e| failure(format!("list {folder}"), e);
    let folders = store.list_with_delimiter(Some(&folder)).await.map_err(failed)?.common_prefixes;
    let dated = format!("{PARTITION}=");
    let mut objects = Vec::new();
    for folder in folders.iter().filter(|folder| folder.filename().is_some_and(|name| name.starts_with(&dated))) {
        let found: Vec<ObjectMeta> = store.list(Some(folder)).try_collect().await.map_err(failed)?;
        objects.extend(found);
    }
    Ok(objects)
}

fn judge(object: &ObjectMeta, state: &State, removed: &HashMap<String, i64>, grace: Grace, now_ms: i64) -> Fate {
    let path = object.location.as_ref();
    if state.holds(path) {
        return Fate::Live;
    }
    let past = |since_ms: i64, grace_ms: i64| now_ms.saturating_sub(since_ms) > grace_ms;
    if let Some(removed_ms) = removed.get(path) {
        return if past(*removed_ms, grace.replaced_ms) { Fate::Delete } else { Fate::Replaced };
    }
    let settled = match Maker::of(object.location.filename().unwrap_or_default()) {
        // Its frames are in the table by other files, so its own commit would be refused.
        Maker::Journal { journal, to } => state.through(journal).is_some_and(|through| through >= to),
        // Fenced off before it is asked for.
        Maker::Merge | Maker::Unfinished => true,
        Maker::Stranger => false,
    };
    let old = past(object.last_modified.timestamp_millis(), grace.orphan_ms);
    if settled && old { Fate::Delete } else { Fate::Orphan }
}

#[cfg(test)]
mod tests;
