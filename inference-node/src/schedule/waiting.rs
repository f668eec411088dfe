//! Who waits, and who is next.
//!
//! Order: who was passed over too often, then the most urgent priority, and within it those whose memory was taken away,
//! then the tenant that was served least, then whoever came first. Service is counted as in "Fairness in Serving
//! Large Language Models" (Sheng et al., OSDI 2024): a prompt token weighs 1, an output token 2, and a tenant
//! that comes back from idleness starts at the level of those being served, so that nobody saves up.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::Sequence;
use crate::engine::SeqId;

/// Whom a sequence is served for; those without a name share one turn.
pub(super) type Tenant = Option<Arc<str>>;

/// Weight of an output token against a prompt token's 1.
const OUTPUT_WEIGHT: u64 = 2;
/// Tenants whose service is remembered while nothing of theirs is open.
const IDLE_TENANTS_MAX: usize = 4_096;

/// A queue of one priority.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    /// Preempted sequences of all tenants: they were served before.
    Returned,
    Of(Tenant),
}

/// What a tenant got.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    service: u64,
    /// Sequences waiting or running.
    open: u32,
}

/// Sequences that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// By arrival.
    sequences: BTreeMap<u64, Sequence>,
    arrivals: HashMap<SeqId, u64>,
    lanes: BTreeMap<(i32, Lane), BTreeSet<u64>>,
    shares: BTreeMap<Tenant, Share>,
    /// Service of the tenant that was picked last; nobody who waits is far below it.
    level: u64,
    /// Admissions since the start.
    admitted: u64,
    /// Later ones that may be admitted before a sequence.
    patience: u64,
}

impl Waiting {
    pub(super) fn new(patience: u32) -> Self {
        Self { patience: u64::from(patience), ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.sequences.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sequences.is_empty()
    }

    /// Puts a new sequence behind those of its kind.
    pub(super) fn push(&mut self, mut sequence: Sequence) {
        // Those before it in line may go first; only later ones count as passing it over.
        sequence.turn = self.admitted + self.len() as u64 + self.patience;
        let share = self.shares.entry(sequence.tenant.clone()).or_default();
        if share.open == 0 {
            share.service = share.service.max(self.level);
        }
        share.open += 1;
        self.insert(sequence);
    }

    /// Takes a preempted sequence back.
    pub(super) fn give_back(&mut self, sequence: Sequence) {
        self.insert(sequence);
    }

    /// Whoever is next.
    pub(super) fn next(&mut self) -> Option<&mut Sequence> {
        let arrival = self.pick()?;
        self.sequences.get_mut(&arrival)
    }

    /// Takes whoever is next out, to run.
    pub(super) fn admit(&mut self) -> Option<Sequence> {
        let arrival = self.pick()?;
        let sequence = self.sequences.get(&arrival)?;
        let (id, tokens) = (sequence.id, u64::from(sequence.prompt.saturating_sub(sequence.computed)));
        // A preempted sequence was admitted before: its prompt is not charged again.
        let fresh = sequence.preemptions == 0;
        let mut sequence = self.take(id)?;
        if fresh {
            self.admitted += 1;
            let share = self.shares.entry(sequence.tenant.clone()).or_default();
            self.level = self.level.max(share.service);
            share.service += tokens;
        }
        sequence.overdue |= self.admitted > sequence.turn;
        Some(sequence)
    }

    /// Charges an output token.
    pub(super) fn charge(&mut self, tenant: &Tenant) {
        if let Some(share) = self.shares.get_mut(tenant) {
            share.service += OUTPUT_WEIGHT;
        }
    }

    /// Takes a waiting sequence out.
    pub(super) fn remove(&mut self, id: SeqId) -> Option<Sequence> {
        let sequence = self.take(id)?;
        self.left(&sequence.tenant);
        Some(sequence)
    }

    /// A sequence of this tenant is over.
    pub(super) fn left(&mut self, tenant: &Tenant) {
        if let Some(share) = self.shares.get_mut(tenant) {
            share.open = share.open.saturating_sub(1);
            if share.open == 0 && share.service <= self.level {
                self.shares.remove(tenant);
            }
        }
        if self.shares.len() > IDLE_TENANTS_MAX {
            self.shares.retain(|_, share| share.open > 0);
        }
    }

    fn insert(&mut self, sequence: Sequence) {
        let lane = lane(&sequence);
        self.arrivals.insert(sequence.id, sequence.arrival);
        self.lanes.entry(lane).or_default().insert(sequence.arrival);
        self.sequences.insert(sequence.arrival, sequence);
    }

    fn take(&mut self, id: SeqId) -> Option<Sequence> {
        let arrival = self.arrivals.remove(&id)?;
        let sequence = self.sequences.remove(&arrival)?;
        let lane = lane(&sequence);
        if let Some(line) = self.lanes.get_mut(&lane) {
            line.remove(&arrival);
            if line.is_empty() {
                self.lanes.remove(&lane);
            }
        }
        Some(sequence)
    }

    fn pick(&self) -> Option<u64> {
        let (oldest, sequence) = self.sequences.first_key_value()?;
        if sequence.overdue || self.admitted > sequence.turn {
            return Some(*oldest);
        }
        let ((urgent, _), _) = self.lanes.first_key_value()?;
        let lanes = self.lanes.iter().take_while(|((priority, _), _)| priority == urgent);
        let lanes = lanes.filter_map(|((_, lane), line)| Some((self.served(lane), *line.first()?)));
        lanes.min().map(|(_, arrival)| arrival)
    }

    /// Sorts lanes: returned ones first, then by service.
    fn served(&self, lane: &Lane) -> Option<u64> {
        match lane {
            Lane::Returned => None,
            Lane::Of(tenant) => Some(self.shares.get(tenant).map_or(0, |share| share.service)),
        }
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Sequence> {
        self.sequences.values()
    }
}

fn lane(sequence: &Sequence) -> (i32, Lane) {
    let lane = if sequence.preemptions > 0 { Lane::Returned } else { Lane::Of(sequence.tenant.clone()) };
    (sequence.priority, lane)
}
