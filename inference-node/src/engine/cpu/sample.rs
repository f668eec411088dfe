//! Picks the next token from logits.
//!
//! Every sequence has its own random numbers, drawn from its seed alone: the same prompt and seed give the same text whatever
//! else is in the batch.

use crate::engine::Sampling;

/// Random state and rules of one sequence.
#[derive(Debug, Clone)]
pub(crate) struct Sampler {
    rules: Sampling,
    state: u64,
}

impl Sampler {
    pub(crate) fn new(rules: Sampling) -> Self {
        let state = rules.seed;
        Self { rules, state }
    }

    /// The next token id; `None` if no logit is a number.
    pub(crate) fn pick(&mut self, logits: &[f32]) -> Option<u32> {
        let (best, highest) = highest(logits)?;
        if self.rules.temperature <= 0.0 || self.rules.top_k == 1 {
            return Some(best);
        }
        let mut candidates = self.candidates(logits, highest);
        self.cut(&mut candidates);
        let total: f32 = candidates.iter().map(|(_, weight)| weight).sum();
        let mut left = self.uniform() * total;
        for (token, weight) in &candidates {
            left -= weight;
            if left < 0.0 {
                return Some(*token);
            }
        }
        Some(candidates.last().map_or(best, |(token, _)| *token))
    }

    /// Tokens with their probabilities, the best one first to be seen by [`Sampler::cut`], order otherwise arbitrary.
    fn candidates(&self, logits: &[f32], highest: f32) -> Vec<(u32, f32)> {
        let weight = |logit: f32| ((logit - highest) / self.rules.temperature).exp();
        let total: f32 = logits.iter().filter(|logit| logit.is_finite()).map(|logit| weight(*logit)).sum();
        // A token this unlikely cannot be among the likeliest ones that together reach `top_p`: all such tokens
        // together hold less than what `top_p` leaves out. Dropping them first keeps the sort short.
        let floor = if self.rules.top_p < 1.0 { (1.0 - self.rules.top_p) / logits.len() as f32 } else { 0.0 };
        let mut kept = Vec::new();
        for (token, logit) in logits.iter().enumerate() {
            let probability = if logit.is_finite() { weight(*logit) / total } else { 0.0 };
            if probability > 0.0 && probability >= floor {
                kept.push((token as u32, probability));
            }
        }
        kept
    }

    /// Applies `top_k`, then `top_p`.
    fn cut(&self, candidates: &mut Vec<(u32, f32)>) {
        if self.rules.top_k == 0 && self.rules.top_p >= 1.0 {
            return;
        }
        // Ties go to the lower id, so that the cut is the same everywhere.
        candidates.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        if self.rules.top_k > 0 {
            candidates.truncate(self.rules.top_k as usize);
        }
        let mut sum = 0.0;
        let enough = candidates.iter().position(|(_, probability)| {
            sum += probability;
            sum >= self.rules.top_p
        });
        if let Some(last) = enough {
            candidates.truncate(last + 1);
        }
    }

    /// A number in [0, 1) with 24 random bits (SplitMix64).
    fn uniform(&mut self) -> f32 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        (bits >> 40) as f32 / (1_u64 << 24) as f32
    }
}

/// The largest logit that is a number, and its token; the lower id on a tie.
fn highest(logits: &[f32]) -> Option<(u32, f32)> {
    let mut best: Option<(u32, f32)> = None;
    for (token, logit) in logits.iter().enumerate() {
        if logit.is_finite() && best.is_none_or(|(_, highest)| *logit > highest) {
            best = Some((token as u32, *logit));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(temperature: f32, top_p: f32, top_k: u32) -> Sampling {
        Sampling { temperature, top_p, top_k, seed: 7, ignore_eos: false }
    }

    fn counts(rules: Sampling, logits: &[f32], draws: usize) -> Vec<usize> {
        let mut sampler = Sampler::new(rules);
        let mut counts = vec![0; logits.len()];
        for _ in 0..draws {
            counts[sampler.pick(logits).unwrap() as usize] += 1;
        }
        counts
    }

    /// Temperature 0 takes the best token, the lower id on a tie, and never one that is not a number.
    #[test]
    fn greedy_takes_the_best() {
        assert_eq!(Sampler::new(rules(0.0, 1.0, 0)).pick(&[1.0, 3.0, f32::NAN, 3.0]), Some(1));
        assert_eq!(Sampler::new(rules(0.0, 1.0, 0)).pick(&[f32::NAN, f32::INFINITY]), None);
    }

    /// Shares follow the probabilities: logits ln 1, ln 2, ln 5 are drawn 1 : 2 : 5.
    #[test]
    fn shares_follow_probabilities() {
        let counts = counts(rules(1.0, 1.0, 0), &[0.0, 2.0_f32.ln(), 5.0_f32.ln()], 8_000);
        for (count, expected) in counts.iter().zip([1_000.0, 2_000.0, 5_000.0]) {
            assert!((*count as f64 - expected).abs() < 200.0, "{counts:?}");
        }
    }

    /// `top_p` keeps the fewest likeliest tokens that reach it; `top_k` keeps k.
    #[test]
    fn cuts_keep_the_likeliest() {
        let logits = [0.0, 2.0_f32.ln(), 5.0_f32.ln(), f32::NEG_INFINITY];
        assert_eq!(counts(rules(1.0, 0.6, 0), &logits, 500), [0, 0, 500, 0]);
        let two = counts(rules(1.0, 0.7, 0), &logits, 500);
        assert!(two[0] == 0 && two[1] > 0 && two[2] > 0, "{two:?}");
        let two = counts(rules(1.0, 1.0, 2), &logits, 500);
        assert!(two[0] == 0 && two[1] > 0 && two[2] > 0, "{two:?}");
    }

    /// A seed is a text; another seed is another one.
    #[test]
    fn seed_decides() {
        let draw = |seed| {
            let mut sampler = Sampler::new(Sampling { seed, ..rules(1.0, 1.0, 0) });
            (0..32).map(|_| sampler.pick(&[0.0; 100]).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
