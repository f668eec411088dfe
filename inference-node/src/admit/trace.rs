//! Which traces have their tokens recorded.

/// Whether the tokens of this trace are recorded: the same answer for every call of a trace.
pub(crate) fn sampled(trace_id: u128, share: f64) -> bool {
    // The low half of a trace id is random in every common generator.
    let position = (trace_id & u128::from(u64::MAX)) as f64 / 2f64.powi(64);
    share >= 1.0 || position < share
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of traces recorded is the share asked for.
    #[test]
    fn sampling_shares() {
        let ids = (0..10_000u128).map(|id| id.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
        let kept = |share: f64| ids.clone().filter(|id| sampled(*id, share)).count();
        assert_eq!((kept(0.0), kept(1.0)), (0, 10_000));
        assert!((2_300..2_700).contains(&kept(0.25)), "{}", kept(0.25));
    }
}
