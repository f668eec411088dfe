//! Turning files into versions: fenced, so that no frame of a journal counts twice, and coalesced, so that many entries that
//! wait for the same table cost one commit.
//!
//! Whoever finds the table free commits for all who wait; the others find their answer when they wake. An entry is applied only
//! if the table's mark of its journal equals `from`, and moves the mark to `to` in the same commit. So an answer that got lost,
//! a replay after a crash and a second process committing the same frames all end alike: applied once.
//!
//! A process that commits for a fleet does so at a pace: entries of all collectors that come in between share one version.

mod anchor;
mod counters;
mod plan;
pub mod wire;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use service::clock::SharedClock;
use service::{Deps, Error, Kind, Result};
use telemetry::table::Table;
use tokio::sync::{MutexGuard, oneshot};
use uuid::Uuid;

use crate::head::{Head, Known};
use crate::log::{State, Written};
use crate::snapshot::FileAdd;
use anchor::Anchor;
use counters::Counters;
use plan::{Plan, Stamp, Verdict, plan};

/// Entries that may wait for one table.
const WAITING_MAX: usize = 1_024;
/// Lost races after which a commit gives up; each one means that another process made progress.
const RACES_MAX: u32 = 50;
/// Entries after which the log is looked at, and without a checkpoint is called long. Ten times what maintenance leaves.
const LONG_LOG: i64 = 1_000;
/// Longest pause after a lost race.
const PAUSE_MS_MAX: u64 = 200;

/// Files that hold one table's rows of the frames (`from`, `to`] of a journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Id of the journal, made once in its life.
    pub journal: String,
    /// Table.
    pub table: &'static str,
    /// Last frame before these; 0 for a new journal.
    pub from: u64,
    /// Last frame of these.
    pub to: u64,
    /// The files, already written.
    pub adds: Vec<FileAdd>,
}

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its files are in the table from this version on.
    Committed {
        /// Delta version.
        version: i64,
    },
    /// Not applied: the table holds the journal's rows up to this frame, which is not the entry's `from`.
    Through(u64),
}

/// An entry, and files that it replaces.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) entry: Entry,
    /// Paths relative to the lake. If one of them is no longer in the table, nothing is applied.
    pub(crate) removes: Vec<String>,
    /// What the change does to rows.
    pub(crate) effect: Effect,
    /// Of a change that moves no journal and puts files in place of others: how often orphans had been swept away when its first
    /// file was begun. If they were swept again since, nothing is applied, for its files may be gone.
    pub(crate) sweeps: u64,
    /// When its files leave the table, microseconds since 1970-01-01 UTC; by our clock unless somebody knows better.
    pub(crate) removed_us: Option<i64>,
}

/// The journal whose frames count how often orphans of a table were swept away. It writes no rows.
const SWEEPS: &str = "tokenwatt-sweeps";

/// How often orphans of the table had been swept away.
pub(crate) fn sweeps(state: &State) -> u64 {
    state.through(SWEEPS).unwrap_or(0)
}

/// Counts one sweep more. Once it is committed, no file that was begun before can be committed by a change that moves no journal.
pub(crate) fn sweep(table: &'static Table, sweeps: u64) -> Entry {
    Entry { journal: SWEEPS.to_owned(), table: table.name, from: sweeps, to: sweeps + 1, adds: Vec::new() }
}

impl Change {
    /// A journal's next rows, and files that leave with them.
    pub(crate) fn advance(entry: Entry, removes: Vec<String>) -> Change {
        Change { entry, removes, effect: Effect::Advance, sweeps: 0, removed_us: None }
    }
}

/// What a change does to the rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Adds a journal's next rows, and may take out others; fenced by the journal's mark, which it moves.
    Advance,
    /// None: other files with the same rows. The files it replaces are its fence; its journal and frames mean nothing.
    Rearrange,
    /// Takes out rows, or whole files. The files it removes are its fence; its journal and frames mean nothing.
    Drop,
}

impl Effect {
    /// Whether readers see other rows afterwards.
    pub(crate) fn changes_data(self) -> bool {
        self != Effect::Rearrange
    }
}

/// The committer of one table.
pub(crate) struct Committer {
    head: Arc<Head>,
    clock: SharedClock,
    waiting: Mutex<Vec<Waiting>>,
    /// When the last commit at a pace began, on the clock's monotonic scale.
    turn: tokio::sync::Mutex<Option<Duration>>,
    anchor: tokio::sync::Mutex<Anchor>,
    counters: Counters,
}

struct Waiting {
    change: Arc<Change>,
    answer: oneshot::Sender<Result<Outcome>>,
}

/// What a call has waited for: to commit now, or at the pace.
enum Place<'c> {
    Table(Result<MutexGuard<'c, Known>>),
    Turn(MutexGuard<'c, Option<Duration>>, Duration),
}

impl Committer {
    pub(crate) fn new(head: Arc<Head>, deps: &Deps) -> Committer {
        let counters = Counters::new(head.table, &deps.metrics);
        Committer {
            head,
            clock: Arc::clone(&deps.clock),
            waiting: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            anchor: tokio::sync::Mutex::default(),
            counters,
        }
    }

    /// Commits a change, together with those that wait for the same table; no sooner than `every` after the last commit of this
    /// kind began, if it is given: what others submit meanwhile goes into the same version. The first after a pause does not
    /// wait.
    ///
    /// # Errors
    /// `Invalid`, `Conflict`, `Denied`, `Corrupt`; `Overloaded` and `Unavailable`, after which the change may or may not have been
    /// applied and can be sent again.
    ///
    /// # Cancel safety
    /// A dropped call may or may not have been applied; it can be sent again.
    pub(crate) async fn submit(&self, change: Change, every: Option<Duration>) -> Result<Outcome> {
        let change = Arc::new(change);
        loop {
            let mut answer = self.enqueue(&change)?;
            let outcome = loop {
                tokio::select! {
                    // Cancel safe: an answer not taken yet stays in its channel.
                    biased;
                    outcome = &mut answer => break outcome,
                    // Cancel safe: a place in a queue is given up, no more.
                    place = self.place(every) => self.commit_from(place).await,
                }
            };
            match outcome {
                Ok(outcome) => return outcome,
                // The call that was committing for us has been dropped. Nobody knows how far it came, but the fence does.
                Err(_) => continue,
            }
        }
    }

    async fn place(&self, every: Option<Duration>) -> Place<'_> {
        match every {
            None => Place::Table(self.head.lock().await),
            Some(every) => Place::Turn(self.turn.lock().await, every),
        }
    }

    async fn commit_from(&self, place: Place<'_>) {
        match place {
            Place::Table(known) => self.commit_waiting(known).await,
            Place::Turn(last, every) => self.take_turn(last, every).await,
        }
    }

    async fn take_turn(&self, mut last: MutexGuard<'_, Option<Duration>>, every: Duration) {
        if self.waiting.lock().is_empty() {
            return;
        }
        let due = last.map_or(Duration::ZERO, |last| last + every);
        self.clock.sleep(due.saturating_sub(self.clock.monotonic())).await;
        *last = Some(self.clock.monotonic());
        let known = self.head.lock().await;
        self.commit_waiting(known).await;
    }

    fn enqueue(&self, change: &Arc<Change>) -> Result<oneshot::Receiver<Result<Outcome>>> {
        let (answer, receiver) = oneshot::channel();
        let mut waiting = self.waiting.lock();
        if waiting.len() >= WAITING_MAX {
            return Err(Error::overloaded(format!("too many entries wait for table {}", self.head.table.name)));
        }
        waiting.push(Waiting { change: Arc::clone(change), answer });
        Ok(receiver)
    }

    async fn commit_waiting(&self, known: Result<MutexGuard<'_, Known>>) {
        let batch = std::mem::take(&mut *self.waiting.lock());
        if batch.is_empty() {
            return;
        }
        let changes: Vec<_> = batch.iter().map(|waiting| Arc::clone(&waiting.change)).collect();
        let outcome = match known {
            Ok(mut known) => self.commit(&mut known, &changes).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(answers) => {
                for (waiting, answer) in batch.into_iter().zip(answers) {
                    // One who no longer waits does not need the answer.
                    let _ = waiting.answer.send(answer);
                }
            }
            Err(error) => {
                self.counters.failed();
                for waiting in batch {
                    let _ = waiting.answer.send(Err(copy(&error)));
                }
            }
        }
    }

    async fn commit(&self, known: &mut Known, changes: &[Arc<Change>]) -> Result<Vec<Result<Outcome>>> {
        self.anchor.lock().await.look(&self.head, known.state.version(), &self.clock).await?;
        let mut current = false;
        if self.head.may_be_behind_the_log(known) {
            self.head.catch_up(known).await?;
            current = true;
        }
        for race in 0..RACES_MAX {
            let stamp = Stamp { now_us: self.clock.now_us(), id: Uuid::new_v4().simple().to_string() };
            let Plan { actions, verdicts } = plan(self.head.table, &known.state, changes, &stamp)?;
            let all_apply = verdicts.iter().all(|verdict| matches!(verdict, Verdict::Apply));
            if !all_apply && !current {
                // Before anyone is told no, see whether it is only that others have moved on.
                self.head.catch_up(known).await?;
                current = true;
                continue;
            }
            if actions.is_empty() {
                return Ok(answers(verdicts, known.state.version()));
            }
            let version = known.state.version() + 1;
            match self.head.log.write(version, &actions).await? {
                // Where the log has been cleaned up, a version of long ago can be written once more, and nobody would see it.
                Written::Ours if self.head.may_be_behind_the_log(known) && self.is_lost(version).await? => {
                    self.head.catch_up(known).await?;
                    current = true;
                }
                Written::Ours => {
                    self.head.advance(known, version, &actions)?;
                    self.counters.committed(changes.len());
                    self.watch_log(version).await;
                    return Ok(answers(verdicts, version));
                }
                Written::Taken => {
                    self.counters.lost_race();
                    self.clock.sleep(pause(race)).await;
                    self.head.catch_up(known).await?;
                    current = true;
                }
            }
        }
        Err(Error::unavailable(format!("commit to table {}: lost {RACES_MAX} races", self.head.table.name)))
    }

    /// Says so if nobody folds the log, for then every process that starts reads all of it.
    async fn watch_log(&self, version: i64) {
        if version == 0 || version % LONG_LOG != 0 {
            return;
        }
        // Not known is not worth a word: the next look will tell.
        let Ok(checkpoint) = self.head.log.newest_checkpoint().await else { return };
        let entries = version - checkpoint.unwrap_or(0);
        self.counters.unfolded(entries);
        if entries >= LONG_LOG {
            let table = self.head.table.name;
            tracing::warn!(
                table,
                entries,
                "nobody has made a checkpoint of the log; run one process of the lake with --maintain"
            );
        }
    }

    /// Whether the log has a checkpoint of a version that we have only just written: it went on without us.
    async fn is_lost(&self, version: i64) -> Result<bool> {
        Ok(self.head.log.newest_checkpoint().await?.is_some_and(|checkpoint| checkpoint >= version))
    }
}

fn answers(verdicts: Vec<Verdict>, version: i64) -> Vec<Result<Outcome>> {
    let answer = |verdict| match verdict {
        Verdict::Apply => Ok(Outcome::Committed { version }),
        Verdict::Through(frame) => Ok(Outcome::Through(frame)),
        Verdict::Refuse(error) => Err(error),
    };
    verdicts.into_iter().map(answer).collect()
}

/// Full jitter, so that processes that collided once do not collide again.
fn pause(race: u32) -> Duration {
    let ceiling = (5_u64 << race.min(6)).min(PAUSE_MS_MAX);
    let random = Uuid::new_v4().as_u64_pair().0;
    Duration::from_millis(random % (ceiling + 1))
}

/// The same error for each of those that shared a commit.
fn copy(error: &Error) -> Error {
    let copied = Error::new(error.kind(), service::error::chain(error));
    match error.hint() {
        Some(hint) => copied.with_hint(hint),
        None if error.kind() == Kind::Denied => copied.with_hint("the lake must be writable"),
        None => copied,
    }
}

#[cfg(test)]
mod tests;
