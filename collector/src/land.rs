//! The rows' side: from durable bodies to committed rows. The journal has everything until it is committed, so whatever goes
//! wrong here is thrown away and begun again from where the tables are.

use std::collections::BTreeMap;
use std::sync::Arc;

use service::channel::bounded;
use service::error::{Error, Result, chain};

use crate::batch::tables::{Closed, FILLED, Tables};
use crate::batch::{Gather, Limits};
use crate::feed::{self, Feed};
use crate::flush::{self, Ways};
use crate::journal::Stored;
use crate::normalize::{Normalizer, Settings};
use crate::publish::{self, Shore};
use crate::receive::admit::Budget;

/// Closed buffers that may wait for a table's lane.
const CLOSED_MAX: usize = 2;
/// How often a body may fail to become rows before it is set aside.
const TRIES_MAX: u32 = 3;
/// How often in a row the tables may be found elsewhere than expected without any of them getting on.
const MOVES_MAX: u32 = 10;

/// Last committed frame of each table.
pub(crate) type Marks = BTreeMap<&'static str, u64>;

/// What rows are made with.
pub(crate) struct Landing {
    /// What every lane shares.
    pub(crate) shore: Shore,
    /// What normalization is told.
    pub(crate) settings: Settings,
    /// When buffers close.
    pub(crate) limits: Limits,
    /// Memory for rows of closed buffers, bytes.
    pub(crate) memory: usize,
}

/// What ends a pass.
#[derive(Debug)]
pub(crate) enum Halt {
    /// A body that did not become rows.
    Poison {
        /// Its frame.
        frame: u64,
        /// What went wrong.
        reason: String,
    },
    /// A table is not where its entries left it.
    Moved(Error),
    /// What beginning again does not mend.
    Failed(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Halt::Failed(error)
    }
}

/// Turns durable bodies into committed rows until no more can come.
///
/// # Errors
/// `Conflict` if another process commits other frames under this journal's id; `Corrupt`, `Internal`, `Denied` never mend.
pub(crate) async fn run(feed: &mut Feed, landing: &Landing, mut marks: Marks) -> Result<()> {
    let mut tries: BTreeMap<u64, u32> = BTreeMap::new();
    let mut moves = 0;
    loop {
        landing.number_after(&marks)?;
        let after = marks.values().copied().min().unwrap_or_default();
        landing.shore.progress.restart(after);
        feed.rewind(after);
        let ended = landing.pass(feed, &marks).await;
        // All of it is read back now, for which no sender is kept waiting.
        feed.rewind(after);
        match ended {
            Ok(()) => return Ok(()),
            Err(Halt::Failed(error)) => return Err(error),
            Err(Halt::Poison { frame, reason }) => {
                tracing::error!(frame, reason, "a body could not be turned into rows; beginning again before it");
                let count = tries.entry(frame).or_default();
                *count += 1;
                if *count >= TRIES_MAX {
                    landing.set_aside(frame, &reason)?;
                }
            }
            Err(Halt::Moved(error)) if moves < MOVES_MAX => {
                tracing::warn!(error = chain(&error), "a table is not where it was left; beginning again from there");
                moves += 1;
            }
            Err(Halt::Moved(error)) => return Err(error),
        }
        let found = publish::retry(&landing.shore, || landing.marks()).await?;
        if found != marks {
            moves = 0;
        }
        marks = found;
    }
}

impl Landing {
    async fn pass(&self, feed: &mut Feed, marks: &Marks) -> Result<(), Halt> {
        let aside = self.shore.journal.lock().aside().clone();
        let gather = Gather::new(
            Normalizer::new(self.settings.clone())?,
            Tables::new(|table| marks.get(table.name).copied().unwrap_or_default()),
            self.limits,
            Arc::clone(&self.shore.progress),
            self.shore.counters.clone(),
            aside,
        );
        let mut lanes = flush::Lanes::new();
        let mut publishing = Vec::with_capacity(FILLED.len());
        for table in FILLED {
            let (lane, closed) = bounded::<Closed>(table.name, CLOSED_MAX);
            lanes.insert(table.name, lane);
            publishing.push(publish::run(table, closed, self.shore.clone()));
        }
        let published = futures::future::try_join_all(publishing);
        let (memory, clock) = (Budget::new(self.memory), Arc::clone(&self.shore.clock));
        tokio::try_join!(flush::run(feed, gather, Ways { lanes, memory, clock }), published).map(|_| ())
    }

    fn set_aside(&self, frame: u64, reason: &str) -> Result<()> {
        let Some(stretch) = self.shore.journal.lock().stretch(frame) else { return Ok(()) };
        let mut found: Option<Stored> = None;
        stretch.read(frame, None, |number, stored| {
            found = (number == frame).then_some(stored);
            false
        })?;
        let Some(stored) = found else { return Ok(()) };
        feed::set_aside(&mut self.shore.journal.lock(), frame, &stored, reason, &self.shore.counters)
    }

    /// How far each table has come with the journal's frames.
    ///
    /// # Errors
    /// `Corrupt`, `Unavailable`.
    pub(crate) async fn marks(&self) -> Result<Marks> {
        let mut marks = Marks::new();
        for table in FILLED {
            let through = self.shore.lake.through(table, &self.shore.journal_id).await?;
            marks.insert(table.name, through.unwrap_or_default());
        }
        Ok(marks)
    }

    /// Gives new frames numbers beyond those that the tables know.
    ///
    /// # Errors
    /// `Conflict` if they know frames that this process has yet to write: another one has a clone of its disk.
    pub(crate) fn number_after(&self, marks: &Marks) -> Result<()> {
        let newest = marks.values().copied().max().unwrap_or_default();
        let mut journal = self.shore.journal.lock();
        if newest > journal.last() && journal.running() {
            let (id, last) = (journal.id(), journal.last());
            let message = format!("a table holds rows of frame {newest} of journal {id}, which has only {last}");
            return Err(Error::conflict(message).with_hint(
                "another process writes with a clone of this disk; stop it, or give it a state directory of its own",
            ));
        }
        journal.skip_to(newest);
        Ok(())
    }
}
