//! Chooses the node of a call. Pure: the same candidates, turn and random numbers give the same node.

use std::collections::BTreeMap;

use crate::config::Policy;

/// A node that can take the call.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate<'a> {
    /// Where it runs.
    pub region: &'a str,
    /// Capacity relative to others, above 0.
    pub weight: f64,
    /// Calls it works on now.
    pub outstanding: usize,
}

/// How to choose.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// The policy within a region, or among all nodes where regions have no weights.
    pub policy: Policy,
    /// Weights by which a region is drawn first; a region not named weighs 1; empty draws none.
    pub regions: &'a BTreeMap<String, f64>,
    /// Counts the choices made so far, for taking turns.
    pub turn: u64,
}

/// Index of the chosen candidate; `None` when there is none that may be chosen.
///
/// `random` gives numbers in [0, 1).
pub fn choose(candidates: &[Candidate<'_>], rules: Rules<'_>, random: &mut dyn FnMut() -> f64) -> Option<usize> {
    let mut pool: Vec<usize> = (0..candidates.len()).collect();
    if !rules.regions.is_empty() {
        let region = draw_region(candidates, rules.regions, random)?;
        pool.retain(|index| candidates[*index].region == region);
    }
    match rules.policy {
        Policy::LeastOutstanding => {
            let least = pool.iter().map(|index| load(&candidates[*index])).fold(f64::INFINITY, f64::min);
            pool.retain(|index| load(&candidates[*index]) <= least);
            draw(candidates, &pool, random)
        }
        Policy::RoundRobin => {
            let turn = rules.turn % (pool.len().max(1) as u64);
            pool.get(turn as usize).copied()
        }
        Policy::Random => draw(candidates, &pool, random),
        Policy::TwoChoices => {
            let first = draw(candidates, &pool, random)?;
            pool.retain(|index| *index != first);
            let second = draw(candidates, &pool, random).unwrap_or(first);
            Some(if load(&candidates[second]) < load(&candidates[first]) { second } else { first })
        }
    }
}

/// Outstanding calls per unit of capacity.
fn load(candidate: &Candidate<'_>) -> f64 {
    candidate.outstanding as f64 / candidate.weight
}

/// Draws a region that has candidates, by weight; `None` when all of them are drained.
fn draw_region<'a>(
    candidates: &[Candidate<'a>],
    weights: &BTreeMap<String, f64>,
    random: &mut dyn FnMut() -> f64,
) -> Option<&'a str> {
    let mut regions: Vec<(&str, f64)> = Vec::new();
    for candidate in candidates {
        if !regions.iter().any(|(region, _)| *region == candidate.region) {
            regions.push((candidate.region, weights.get(candidate.region).copied().unwrap_or(1.0)));
        }
    }
    regions.retain(|(_, weight)| *weight > 0.0);
    let drawn = draw_weighted(regions.iter().map(|(_, weight)| *weight), random)?;
    regions.get(drawn).map(|(region, _)| *region)
}

/// Draws a member of `pool` by the candidates' weights.
fn draw(candidates: &[Candidate<'_>], pool: &[usize], random: &mut dyn FnMut() -> f64) -> Option<usize> {
    let drawn = draw_weighted(pool.iter().map(|index| candidates[*index].weight), random)?;
    pool.get(drawn).copied()
}

/// Draws a position by weight; the last one where rounding leaves a rest.
fn draw_weighted(weights: impl Iterator<Item = f64> + Clone, random: &mut dyn FnMut() -> f64) -> Option<usize> {
    let mut left = random() * weights.clone().sum::<f64>();
    let mut last = None;
    for (position, weight) in weights.enumerate() {
        last = Some(position);
        left -= weight;
        if left < 0.0 {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests;
