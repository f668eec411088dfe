//! The lake that a journal's frames belong to. Marks of what is committed lie in the tables, so in another lake all of the journal
//! would look as if it had yet to be committed, and what came meanwhile would be missing in its own.

use std::io::ErrorKind;
use std::time::Duration;

use service::error::{Error, Result};

use super::tries::{self, Tries};
use super::{Digests, Journal, directory, failed};

impl Journal {
    /// Binds the journal to the lake with that id, at `url`; `is_known` says whether a table of it has rows of this journal. One
    /// whose frames are all committed and gone may be bound to another lake.
    ///
    /// # Errors
    /// `Conflict` if it holds frames for another lake; `Denied`, `Unavailable`.
    pub fn belong(&mut self, lake: &str, url: &str, is_known: bool, digests: &Digests) -> Result<()> {
        let path = self.directory.join("lake");
        let bound = match directory::read(&*self.disk, &path) {
            Ok(bytes) => Some(String::from_utf8_lossy(&bytes).trim().to_owned()).filter(|text| !text.is_empty()),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(failed("read", &path, error)),
        };
        let (id, place) = match &bound {
            Some(text) => text.split_once(' ').unwrap_or((text, "a place that was not noted")),
            None => ("", "another place"),
        };
        if id == lake {
            return Ok(());
        }
        // Made by a version that did not note the lake: frames before its first one were committed, and not to this lake.
        let is_strange =
            bound.is_some() || (!is_known && self.segments.front().is_some_and(|segment| segment.first > 1));
        if is_strange && !self.segments.is_empty() {
            let (journal, first, last) = (self.directory.display(), self.first(), self.last());
            return Err(Error::conflict(format!(
                "the journal in {journal} holds frames {first} to {last} for the lake at {place}, which is not the one at {url}"
            ))
            .with_hint(self.ways_out(lake, url)));
        }
        if bound.is_some() {
            tracing::info!(from = place, to = url, "the journal is empty and goes on with another lake");
            // What the other lake has is new to this one.
            self.forget(digests);
        }
        let text = format!("{lake} {url}\n");
        let written = directory::replace(&*self.disk, &self.directory, &path, &[text.as_bytes()]);
        written.map_err(|error| failed("write", &path, error))
    }

    /// Gives up what is committed, also the segment that was appended to: for a process that ends.
    ///
    /// # Errors
    /// `Unavailable` if the disk does not obey; what is left is for the next process.
    pub fn empty(&mut self, through: u64, now: Duration) -> Result<()> {
        if self.last() <= through {
            self.open = None;
        }
        while let Some(gone) = self.cut(through, now)? {
            gone.remove()?;
        }
        Ok(())
    }

    /// What to do about a journal of another lake, or of one that does not say which. Nobody but the operator knows whether a lake that
    /// has no id any more is that one, restored from a copy without it, or a copy beside it.
    fn ways_out(&self, lake: &str, url: &str) -> String {
        let (noted, file) =
            (quoted(&format!("{lake} {url}")), quoted(&self.directory.join("lake").display().to_string()));
        format!(
            "if it is the same lake, restored or moved without its `_tokenwatt/id`, say so and start again: \
             `printf '%s\\n' {noted} > {file}`. If it is another one, give it a state directory of its own: --state DIR; or start with the \
             other lake and stop in order, which commits what the journal holds and empties it. If that lake is gone for good, move \
             the journal away: what it holds has nowhere to go"
        )
    }

    fn first(&self) -> u64 {
        self.segments.front().map_or(self.next, |segment| segment.first)
    }

    fn forget(&mut self, digests: &Digests) {
        digests.clear();
        self.tries = Tries::default();
        let _ = self.disk.remove(&tries::path(&self.directory));
        for (_, path) in self.faded.drain(..) {
            let _ = self.disk.remove(&path);
        }
    }
}

/// A word of a shell's command.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
