//! Picks the next token from logits.
//!
//! ```text
//! logits -> bias -> penalties -> temperature -> min_p -> top_k -> top_p -> draw
//! ```
//!
//! The order is vLLM's. Every sequence has its own random numbers, drawn from its seed alone: the same prompt and seed give the
//! same text whatever else is in the batch.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::engine::Sampling;

/// Random state, rules and past of one sequence.
#[derive(Debug, Clone)]
pub(crate) struct Sampler {
    rules: Sampling,
    state: u64,
    /// How often the output holds a token; 0 for one of the prompt alone. Empty where no rule asks for it.
    seen: HashMap<u32, u32>,
}

impl Sampler {
    pub(crate) fn new(rules: Sampling, prompt: &[u32]) -> Self {
        let state = rules.seed;
        let mut sampler = Self { rules, state, seen: HashMap::new() };
        if sampler.penalizes() {
            sampler.seen.extend(prompt.iter().map(|token| (*token, 0)));
        }
        sampler
    }

    /// Rules of the sequence.
    pub(crate) fn rules(&self) -> &Sampling {
        &self.rules
    }

    /// The next token id; `None` if no logit is a number.
    pub(crate) fn pick(&mut self, logits: &[f32]) -> Option<u32> {
        let logits = self.changed(logits);
        let token = self.draw(&logits)?;
        if self.penalizes() {
            *self.seen.entry(token).or_default() += 1;
        }
        Some(token)
    }

    fn penalizes(&self) -> bool {
        let Sampling { repetition_penalty, presence_penalty, frequency_penalty, .. } = self.rules;
        repetition_penalty != 1.0 || presence_penalty != 0.0 || frequency_penalty != 0.0
    }

    /// The bias first, then the penalties for repetition, presence and frequency, as vLLM has it.
    fn changed<'a>(&self, logits: &'a [f32]) -> Cow<'a, [f32]> {
        if self.seen.is_empty() && self.rules.bias.is_empty() {
            return Cow::Borrowed(logits);
        }
        let mut logits = logits.to_vec();
        for (token, bias) in self.rules.bias.iter() {
            if let Some(logit) = logits.get_mut(*token as usize) {
                *logit += bias;
            }
        }
        for (token, count) in &self.seen {
            let Some(logit) = logits.get_mut(*token as usize) else { continue };
            let penalty = self.rules.repetition_penalty;
            *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
            if *count > 0 {
                *logit -= self.rules.presence_penalty + self.rules.frequency_penalty * *count as f32;
            }
        }
        Cow::Owned(logits)
    }

    fn draw(&mut self, logits: &[f32]) -> Option<u32> {
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

    /// Tokens that `min_p` keeps, with their probabilities, in order of their ids.
    fn candidates(&self, logits: &[f32], highest: f32) -> Vec<(u32, f32)> {
        let weight = |logit: f32| ((logit - highest) / self.rules.temperature).exp();
        let total: f32 = logits.iter().filter(|logit| logit.is_finite()).map(|logit| weight(*logit)).sum();
        // Without other cuts, a token this unlikely cannot be among the likeliest ones that together reach `top_p`: all such
        // tokens together hold less than what `top_p` leaves out. Dropping them first keeps the sort short.
        let floor = match self.only_top_p() {
            true => (1.0 - self.rules.top_p) / logits.len() as f32,
            false => self.rules.min_p / total,
        };
        let mut kept = Vec::new();
        for (token, logit) in logits.iter().enumerate() {
            let probability = if logit.is_finite() { weight(*logit) / total } else { 0.0 };
            if probability > 0.0 && probability >= floor {
                kept.push((token as u32, probability));
            }
        }
        kept
    }

    fn only_top_p(&self) -> bool {
        self.rules.top_p < 1.0 && self.rules.top_k == 0 && self.rules.min_p == 0.0
    }

    /// Applies `top_k`, then `top_p` to the share of what is left.
    fn cut(&self, candidates: &mut Vec<(u32, f32)>) {
        if self.rules.top_k == 0 && self.rules.top_p >= 1.0 {
            return;
        }
        // Ties go to the lower id, so that the cut is the same everywhere.
        let falling = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        let k = self.rules.top_k as usize;
        if k > 0 && k < candidates.len() {
            candidates.select_nth_unstable_by(k, falling);
            candidates.truncate(k);
        }
        candidates.sort_unstable_by(falling);
        let whole = if self.only_top_p() { 1.0 } else { candidates.iter().map(|(_, probability)| probability).sum() };
        let enough = self.rules.top_p * whole;
        let mut sum = 0.0;
        let last = candidates.iter().position(|(_, probability)| {
            sum += probability;
            sum >= enough
        });
        if let Some(last) = last {
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
    let larger = |top: f32, logit: f32| if (logit > top) & (logit < f32::INFINITY) { logit } else { top };
    // Side by side, so that the loop over a whole vocabulary becomes vector instructions.
    let mut tops = [f32::NEG_INFINITY; 16];
    let chunks = logits.chunks_exact(tops.len());
    let rest = chunks.remainder().iter().fold(f32::NEG_INFINITY, |top, logit| larger(top, *logit));
    for chunk in chunks {
        for (top, logit) in tops.iter_mut().zip(chunk) {
            *top = larger(*top, *logit);
        }
    }
    let top = tops.into_iter().fold(rest, larger);
    let token = logits.iter().position(|logit| *logit == top).filter(|_| top.is_finite())?;
    Some((token as u32, top))
}

/// Natural logarithms of probabilities: of `picked`, and of the `count` likeliest tokens in falling order, the lower id first on
/// a tie. Logits that are no numbers are left out.
pub(crate) fn likeliest(logits: &[f32], picked: u32, count: u32) -> (f32, Vec<(u32, f32)>) {
    let top = highest(logits).map_or(0.0, |(_, logit)| logit);
    let finite = logits.iter().filter(|logit| logit.is_finite());
    // In double precision: the sum runs over the whole vocabulary.
    let sum: f64 = finite.map(|logit| f64::from(logit - top).exp()).sum();
    let ln = |logit: f32| (f64::from(logit - top) - sum.ln()) as f32;
    let mut order: Vec<u32> = Vec::new();
    if count > 0 {
        order = (0..logits.len() as u32).filter(|token| logits[*token as usize].is_finite()).collect();
        let falling = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
        let count = (count as usize).min(order.len());
        if count < order.len() {
            order.select_nth_unstable_by(count, falling);
            order.truncate(count);
        }
        order.sort_unstable_by(falling);
    }
    let likeliest = order.into_iter().map(|token| (token, ln(logits[token as usize]))).collect();
    (logits.get(picked as usize).map_or(f32::NEG_INFINITY, |logit| ln(*logit)), likeliest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(temperature: f32, top_p: f32, top_k: u32) -> Sampling {
        Sampling { temperature, top_p, top_k, seed: 7, ..Sampling::default() }
    }

    fn counts(rules: Sampling, logits: &[f32], draws: usize) -> Vec<usize> {
        let mut sampler = Sampler::new(rules, &[]);
        let mut counts = vec![0; logits.len()];
        for _ in 0..draws {
            counts[sampler.pick(logits).unwrap() as usize] += 1;
        }
        counts
    }

    /// Temperature 0 takes the best token, the lower id on a tie, and never one that is not a number.
    #[test]
    fn greedy_takes_the_best() {
        assert_eq!(Sampler::new(rules(0.0, 1.0, 0), &[]).pick(&[1.0, 3.0, f32::NAN, 3.0]), Some(1));
        assert_eq!(Sampler::new(rules(0.0, 1.0, 0), &[]).pick(&[f32::NAN, f32::INFINITY]), None);
        let mut many = [f32::NEG_INFINITY; 50];
        assert_eq!(highest(&many), None);
        for (at, logit) in [(49, -9.0), (31, 4.0), (17, 4.0), (2, f32::INFINITY)] {
            many[at] = logit;
        }
        assert_eq!(highest(&many), Some((17, 4.0)));
    }

    /// A bias moves the choice, also away from a token that can be no other way; an id that is not there moves nothing.
    #[test]
    fn biases_move_the_choice() {
        let pick = |bias: &[(u32, f32)]| {
            let rules = Sampling { bias: bias.into(), ..rules(0.0, 1.0, 0) };
            Sampler::new(rules, &[]).pick(&[1.0, 3.0, 2.0])
        };
        assert_eq!(pick(&[(0, 2.5)]), Some(0));
        assert_eq!(pick(&[(1, -100.0), (9, 100.0)]), Some(2));
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
            let mut sampler = Sampler::new(Sampling { seed, ..rules(1.0, 1.0, 0) }, &[]);
            (0..32).map(|_| sampler.pick(&[0.0; 100]).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    /// `min_p` keeps what is likely enough beside the likeliest token, and `top_p` is a share of what it kept.
    #[test]
    fn unlikely_tokens_are_cut() {
        let logits = [0.0, 2.0_f32.ln(), 5.0_f32.ln()];
        let min_p = |min_p, top_p| counts(Sampling { min_p, ..rules(1.0, top_p, 0) }, &logits, 500);
        let all = min_p(0.19, 1.0);
        assert!(all.iter().all(|count| *count > 0), "{all:?}");
        let two = min_p(0.39, 1.0);
        assert!(two[0] == 0 && two[1] > 0 && two[2] > 0, "{two:?}");
        assert_eq!(min_p(0.41, 1.0), [0, 0, 500]);
        // 5 of 8 are less than 0.7, 5 of the 7 that are left are more.
        assert_eq!(min_p(0.39, 0.7), [0, 0, 500]);
    }

    /// Penalties change logits by the published formulas, from the tokens of this sequence alone.
    #[test]
    fn penalties_follow_the_formulas() {
        let logits = [2.0, -1.0, 1.5, 1.0];
        let penalized = |change: Sampling| {
            let mut sampler = Sampler::new(Sampling { temperature: 0.0, ..change }, &[1, 2]);
            let picked: Vec<u32> = (0..2).map(|_| sampler.pick(&logits).unwrap()).collect();
            (picked, sampler.changed(&logits).into_owned())
        };
        let none = Sampling::default();
        assert_eq!(penalized(none.clone()), (vec![0, 0], logits.to_vec()));
        // Prompt and output alike: 2.0 / 2 is below 1.0 of token 3, once it was picked.
        let repetition = penalized(Sampling { repetition_penalty: 2.0, ..none.clone() });
        assert_eq!(repetition, (vec![0, 0], vec![1.0, -2.0, 0.75, 1.0]));
        // The output alone: after 2.0 - 0.75 comes 1.5, and the second time it is 0.75.
        let presence = penalized(Sampling { presence_penalty: 0.75, ..none.clone() });
        assert_eq!(presence, (vec![0, 2], vec![1.25, -1.0, 0.75, 1.0]));
        let frequency = penalized(Sampling { frequency_penalty: 0.25, ..none });
        assert_eq!(frequency, (vec![0, 0], vec![1.5, -1.0, 1.5, 1.0]));
    }

    /// Logarithms of the shares 1 : 2 : 5, best first; what is no number has no share.
    #[test]
    fn likelihoods_are_logarithms_of_shares() {
        let logits = [0.0, 2.0_f32.ln(), 5.0_f32.ln(), f32::NAN];
        let near = |ln: f32, share: f32| (ln - share.ln()).abs() < 1e-6;
        let (picked, top) = likeliest(&logits, 1, 2);
        assert!(near(picked, 0.25));
        assert_eq!(top.iter().map(|(token, _)| *token).collect::<Vec<_>>(), [2, 1]);
        assert!(near(top[0].1, 0.625) && near(top[1].1, 0.25));
        assert_eq!(likeliest(&logits, 2, 0).1, []);
        assert_eq!(likeliest(&logits, 2, 9).1.len(), 3);
        assert_eq!(likeliest(&[1.0; 4], 0, 2).1.iter().map(|(token, _)| *token).collect::<Vec<_>>(), [0, 1]);
    }
}
