//! Tokens of calls that take turns, back in the order of their calls.
//!
//! An engine sends a token of each running call per step. As rows in that order, ids and tenants would change from row to row; call
//! by call they stay what they are for as many rows as a call has tokens in the body.

use crate::decode::alike::place_of;

/// Tokens that wait at a time, 32 bytes each; then they are written, and calls begin anew.
const WAITING_MAX: usize = 16_384;
/// Places for calls, at least and at most; two calls at one place each end the other's rows.
const PLACES_MIN: usize = 16;
const PLACES_MAX: usize = 4_096;
/// Bytes of a group for each place: a fourth of a token's.
const PLACE_BYTES: usize = 64;

/// Tokens on their way to rows.
pub(super) struct Turns<'a> {
    group_bytes: usize,
    /// The number of the call that was last seen with these bits of a trace id.
    places: Vec<u32>,
    calls: Vec<Call<'a>>,
    tokens: Vec<Token<'a>>,
}

struct Call<'a> {
    trace_id: &'a [u8],
    first: u32,
    last: u32,
}

struct Token<'a> {
    span: &'a [u8],
    pattern: u32,
    /// The call's next token; itself, if it is the last.
    next: u32,
}

impl<'a> Turns<'a> {
    /// None yet, of a group of so many bytes.
    pub(super) fn new(group_bytes: usize) -> Self {
        Self { group_bytes, places: Vec::new(), calls: Vec::new(), tokens: Vec::new() }
    }

    /// Takes a token: its span, and the number of the pattern that it fits.
    #[inline]
    pub(super) fn add(&mut self, trace_id: &'a [u8], span: &'a [u8], pattern: usize) {
        let number = self.tokens.len() as u32;
        self.tokens.push(Token { span, pattern: pattern as u32, next: number });
        if self.places.is_empty() {
            let places = (self.group_bytes / PLACE_BYTES).next_power_of_two();
            self.places = vec![0; places.clamp(PLACES_MIN, PLACES_MAX)];
        }
        let places = self.places.len();
        let Some(place) = self.places.get_mut(place_of(trace_id, places)) else { return };
        match self.calls.get_mut(*place as usize).filter(|call| call.trace_id == trace_id) {
            Some(call) => {
                if let Some(last) = self.tokens.get_mut(call.last as usize) {
                    last.next = number;
                }
                call.last = number;
            }
            None => {
                *place = self.calls.len() as u32;
                self.calls.push(Call { trace_id, first: number, last: number });
            }
        }
    }

    /// Whether so many wait that they are to be written.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.tokens.len() >= WAITING_MAX
    }

    /// All tokens, each with the number of its pattern: call by call, each call's in the order in which they came.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (&'a [u8], usize)> {
        let of = |call: &Call<'_>| {
            let token = |number: u32| self.tokens.get(number as usize).map(|token| (number, token));
            std::iter::successors(
                token(call.first),
                move |(number, last)| {
                    if last.next == *number { None } else { token(last.next) }
                },
            )
        };
        self.calls.iter().flat_map(of).map(|(_, token)| (token.span, token.pattern as usize))
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.calls.clear();
        self.tokens.clear();
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// Whatever turns calls take, each token comes out once, and a call's tokens together and in their order, unless another call
    /// has its place.
    #[test]
    fn calls_come_out_one_by_one() {
        let mut random = StdRng::seed_from_u64(23);
        for calls in [1, 3, 20, 5_000] {
            let ids: Vec<[u8; 16]> = (0..calls).map(|_| random.random()).collect();
            let spans: Vec<[u8; 4]> = (0..9_000_u32).map(u32::to_le_bytes).collect();
            let of: Vec<usize> = spans.iter().map(|_| random.random_range(0..calls)).collect();
            let mut turns = Turns::new(240 * spans.len());
            for round in 0..2 {
                for ((number, span), call) in spans.iter().enumerate().zip(&of) {
                    turns.add(&ids[*call], span, number % 7);
                }
                let out: Vec<(u32, usize)> = turns
                    .in_order()
                    .map(|(span, pattern)| (u32::from_le_bytes(span.try_into().unwrap()), pattern))
                    .collect();
                assert!(out.iter().all(|(number, pattern)| pattern == &(*number as usize % 7)));
                let mut sorted: Vec<u32> = out.iter().map(|(number, _)| *number).collect();
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..9_000), "{calls} calls, round {round}");
                let call = |at: usize| of[out[at].0 as usize];
                let changes = (1..out.len()).filter(|at| call(at - 1) != call(*at)).count();
                let backwards = (1..out.len()).filter(|at| call(at - 1) == call(*at) && out[at - 1].0 > out[*at].0);
                assert_eq!(backwards.count(), 0);
                assert!(changes < if calls == 5_000 { 9_000 } else { calls + 20 }, "{changes} of {calls} calls");
                turns.clear();
            }
        }
    }
}
