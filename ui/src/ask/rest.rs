//! What a page was sent without: answers that were on their way when it had waited for them long enough.
//!
//! ```text
//! page ─ asks ─► answers in time are shown; the others are pending, and the page carries its number (`data-rest`)
//!   ▲                                         │
//!   └── the same page by that number (`rest`) ┘ is made anew as soon as one of them is there, from what was answered before
//! ```
//!
//! So no panel waits for a slower one, and nothing is asked twice.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use telemetry::contract::{ApiError, QueryApi};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Answer, of_panel, run};

/// Pages that may be gone on with, of one reader; beyond, the oldest is forgotten and asked for anew.
const PAGES_MOST: usize = 16;
/// A page that nobody went on with for this long is forgotten, µs: its answers have come or failed long before.
const KEPT_FOR_US: i64 = 20_000_000;

/// An answer that may still be on its way.
pub(super) type Coming = watch::Receiver<Option<Result<Answer, ApiError>>>;

/// All that one page asks, from its first response to its last. What is still asked when nobody can go on with it is cancelled.
#[derive(Debug)]
pub(crate) struct Rest {
    pub(crate) number: u64,
    /// Path and query of the page.
    here: String,
    /// The page's instant, µs since the epoch.
    pub(crate) now_us: i64,
    going: Mutex<Going>,
    /// How many answers have come.
    come: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Going {
    /// By the panel's name and its statement: the answer, and whether it was shown.
    answers: HashMap<(&'static str, String), (Coming, bool)>,
    tasks: JoinSet<()>,
}

impl Rest {
    pub(crate) fn new(here: &str, now_us: i64) -> Arc<Self> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        Arc::new(Self { number, here: here.to_owned(), now_us, going: Mutex::default(), come: watch::Sender::new(0) })
    }

    /// Asks, unless that was asked before; whether it was.
    pub(super) fn ask(
        &self,
        api: &Arc<dyn QueryApi>,
        name: &'static str,
        sql: &str,
        deadline: Duration,
    ) -> (Coming, bool) {
        let mut going = self.going.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((coming, _)) = going.answers.get(&(name, sql.to_owned())) {
            return (coming.clone(), true);
        }
        let (tell, coming) = watch::channel(None);
        going.answers.insert((name, sql.to_owned()), (coming.clone(), false));
        let (api, come, sql) = (Arc::clone(api), self.come.clone(), sql.to_owned());
        going.tasks.spawn(async move {
            let outcome = run(&*api, of_panel(&sql), deadline).await;
            tell.send_replace(Some(outcome));
            come.send_modify(|count| *count += 1);
        });
        (coming, false)
    }

    /// Notes that an answer is on the page.
    pub(super) fn shown(&self, name: &'static str, sql: &str) {
        let mut going = self.going.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, shown)) = going.answers.get_mut(&(name, sql.to_owned())) {
            *shown = true;
        }
    }

    /// Waits until there is an answer that was not shown. Each comes within its deadline, as a failure if nothing else.
    pub(super) async fn more(&self) {
        let mut come = self.come.subscribe();
        while !self.has_more() && come.changed().await.is_ok() {}
    }

    fn has_more(&self) -> bool {
        let going = self.going.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = |(coming, shown): &(Coming, bool)| !shown && coming.borrow().is_some();
        going.answers.values().any(is_new)
    }
}

/// Pages that were sent in part.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts(Arc<Mutex<Vec<Arc<Rest>>>>);

impl Parts {
    /// The page of that number and address, if it can be gone on with.
    pub(super) fn find(&self, number: u64, here: &str) -> Option<Arc<Rest>> {
        let parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.iter().find(|rest| rest.number == number && rest.here == here).map(Arc::clone)
    }

    /// Keeps a page that was sent in part, or forgets one that was sent whole.
    pub(super) fn sent(&self, rest: &Arc<Rest>, is_whole: bool) {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.retain(|kept| kept.number != rest.number && rest.now_us - kept.now_us < KEPT_FOR_US);
        if !is_whole {
            if parts.len() >= PAGES_MOST {
                parts.remove(0);
            }
            parts.push(Arc::clone(rest));
        }
    }
}
