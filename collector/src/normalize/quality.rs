//! Whether a call's figures can be true, and what is done when they cannot: clamp and flag, never drop silently.

/// A call's figures, in seconds and tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Waiting until first scheduled.
    pub queue_s: Option<f64>,
    /// First scheduled to first token.
    pub prefill_s: Option<f64>,
    /// First to last token.
    pub decode_s: Option<f64>,
    /// Arrival to first token.
    pub ttft_s: Option<f64>,
    /// Time per output token after the first.
    pub tpot_s: Option<f64>,
    /// Longest gap between tokens.
    pub itl_max_s: Option<f64>,
    /// Arrival to the end.
    pub e2e_s: Option<f64>,
    /// Prompt tokens, cached ones included.
    pub input_tokens: Option<i64>,
    /// Prompt tokens from a cache.
    pub cached_input_tokens: Option<i64>,
    /// Prompt tokens put into a cache.
    pub cache_write_tokens: Option<i64>,
    /// Generated tokens, reasoning ones included.
    pub output_tokens: Option<i64>,
    /// Reasoning tokens.
    pub reasoning_tokens: Option<i64>,
    /// Input and output together, as the emitter counts them.
    pub total_tokens: Option<i64>,
}

/// What was found; printed in the order of [`Flags::NAMES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u32);

impl Flags {
    /// Nothing was found.
    pub const NONE: Flags = Flags(0);
    /// Figures contradict one another.
    pub const CONTRADICTORY: Flags = Flags(1);
    /// A figure was moved to the nearest one that can be true.
    pub const CLAMPED: Flags = Flags(1 << 1);
    /// A figure that no call can have was left out.
    pub const INVALID: Flags = Flags(1 << 2);
    /// The emitter's input tokens left out the cached ones; they were added.
    pub const CACHED_ADDED: Flags = Flags(1 << 3);
    /// The emitter's total is not the sum of its parts.
    pub const TOTAL_MISMATCH: Flags = Flags(1 << 4);
    /// The model comes from metrics or configuration.
    pub const ASSUMED_MODEL: Flags = Flags(1 << 5);
    /// No end-to-end latency was sent; it is the span's duration.
    pub const E2E_FROM_SPAN: Flags = Flags(1 << 6);

    /// The emitter's output tokens left out the reasoning ones; they were added.
    pub const REASONING_ADDED: Flags = Flags(1 << 7);
    /// The emitter sent no output tokens; they follow from other figures of it.
    pub const OUTPUT_DERIVED: Flags = Flags(1 << 8);
    /// The emitter's prefill begins when the call is queued.
    pub const PREFILL_WITH_QUEUE: Flags = Flags(1 << 9);
    /// The call was read from a line of a log.
    pub const FROM_LOG: Flags = Flags(1 << 10);
    /// A text was too long for its column; `spans` has all of it.
    pub const CUT: Flags = Flags(1 << 11);

    /// Flags by name.
    pub const NAMES: [(&'static str, Flags); 12] = [
        ("contradictory", Self::CONTRADICTORY),
        ("clamped", Self::CLAMPED),
        ("invalid", Self::INVALID),
        ("cached_added", Self::CACHED_ADDED),
        ("total_mismatch", Self::TOTAL_MISMATCH),
        ("assumed_model", Self::ASSUMED_MODEL),
        ("e2e_from_span", Self::E2E_FROM_SPAN),
        ("reasoning_added", Self::REASONING_ADDED),
        ("output_derived", Self::OUTPUT_DERIVED),
        ("prefill_includes_queue", Self::PREFILL_WITH_QUEUE),
        ("from_log", Self::FROM_LOG),
        ("cut", Self::CUT),
    ];

    /// Raises a flag.
    pub fn raise(&mut self, flag: Flags) {
        self.0 |= flag.0;
    }

    /// Raises a flag where that holds.
    pub fn raise_if(&mut self, holds: bool, flag: Flags) {
        if holds {
            self.raise(flag);
        }
    }

    /// The flags raised, comma separated.
    pub fn text(self) -> String {
        let raised: Vec<_> =
            Self::NAMES.iter().filter(|(_, flag)| self.0 & flag.0 != 0).map(|(name, _)| *name).collect();
        raised.join(",")
    }
}

/// Longest duration a call can have: thirty days, the retention of calls.
const SECONDS_MAX: f64 = 30.0 * 86_400.0;
/// More tokens than any context window holds.
const TOKENS_MAX: i64 = 1_000_000_000;
/// Two clocks and a rounding may disagree by this much without a word.
const SLACK_S: f64 = 0.001;

/// Mends a call's figures and says what was wrong.
pub fn mend(figures: &mut Figures) -> Flags {
    let mut flags = Flags::default();
    for seconds in [
        &mut figures.queue_s,
        &mut figures.prefill_s,
        &mut figures.decode_s,
        &mut figures.ttft_s,
        &mut figures.tpot_s,
        &mut figures.itl_max_s,
        &mut figures.e2e_s,
    ] {
        mend_seconds(seconds, &mut flags);
    }
    for tokens in [
        &mut figures.input_tokens,
        &mut figures.cached_input_tokens,
        &mut figures.cache_write_tokens,
        &mut figures.output_tokens,
        &mut figures.reasoning_tokens,
        &mut figures.total_tokens,
    ] {
        if tokens.is_some_and(|count| !(0..=TOKENS_MAX).contains(&count)) {
            *tokens = None;
            flags.raise(Flags::INVALID);
        }
    }
    mend_tokens(figures, &mut flags);
    clamp(&mut figures.ttft_s, figures.e2e_s, &mut flags);
    clamp(&mut figures.queue_s, figures.ttft_s, &mut flags);
    clamp(&mut figures.prefill_s, figures.e2e_s, &mut flags);
    clamp(&mut figures.decode_s, figures.e2e_s, &mut flags);
    derive_tpot(figures);
    flags
}

fn mend_seconds(seconds: &mut Option<f64>, flags: &mut Flags) {
    let Some(value) = *seconds else { return };
    if value.is_nan() || value.abs() > SECONDS_MAX {
        *seconds = None;
        flags.raise(Flags::INVALID);
    } else if value < 0.0 {
        *seconds = Some(0.0);
        flags.raise(Flags::CLAMPED);
        if value < -SLACK_S {
            flags.raise(Flags::CONTRADICTORY);
        }
    }
}

/// Moves a part down to the whole it cannot exceed.
fn clamp(part: &mut Option<f64>, whole: Option<f64>, flags: &mut Flags) {
    if let (Some(value), Some(limit)) = (*part, whole)
        && value > limit
    {
        *part = Some(limit);
        flags.raise(Flags::CLAMPED);
        if value > limit + SLACK_S {
            flags.raise(Flags::CONTRADICTORY);
        }
    }
}

/// Decides what the emitter's input and output include by what adds up, never by which is larger.
fn mend_tokens(figures: &mut Figures, flags: &mut Flags) {
    if let (Some(input), Some(output), Some(total)) =
        (figures.input_tokens, figures.output_tokens, figures.total_tokens)
    {
        let read = figures.cached_input_tokens.unwrap_or_default();
        let written = figures.cache_write_tokens.unwrap_or_default();
        let reasoning = figures.reasoning_tokens.unwrap_or_default();
        let left_out =
            [0, read, written, read + written].into_iter().flat_map(|cached| [(cached, 0), (cached, reasoning)]);
        match left_out.into_iter().find(|(cached, reasoned)| input + cached + output + reasoned == total) {
            Some((cached, reasoned)) => {
                figures.input_tokens = Some(input + cached);
                figures.output_tokens = Some(output + reasoned);
                flags.raise_if(cached > 0, Flags::CACHED_ADDED);
                flags.raise_if(reasoned > 0, Flags::REASONING_ADDED);
            }
            None => flags.raise(Flags::TOTAL_MISMATCH),
        }
    }
    for (part, whole) in [
        (&mut figures.cached_input_tokens, figures.input_tokens),
        (&mut figures.reasoning_tokens, figures.output_tokens),
    ] {
        if let (Some(value), Some(limit)) = (*part, whole)
            && value > limit
        {
            *part = Some(limit);
            flags.raise(Flags::CLAMPED);
            flags.raise(Flags::CONTRADICTORY);
        }
    }
}

/// (e2e − TTFT) / (output tokens − 1), where the emitter did not send it.
fn derive_tpot(figures: &mut Figures) {
    if let (None, Some(e2e), Some(ttft), Some(output @ 2..)) =
        (figures.tpot_s, figures.e2e_s, figures.ttft_s, figures.output_tokens)
    {
        figures.tpot_s = Some((e2e - ttft) / (output - 1) as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mut figures: Figures, expected: Figures, flags: &str) {
        assert_eq!((mend(&mut figures).text().as_str(), figures), (flags, expected));
    }

    /// Figures that can be true stay as they are; TPOT follows from them.
    #[test]
    fn good_figures_stay() {
        let good = Figures {
            queue_s: Some(0.1),
            ttft_s: Some(0.5),
            e2e_s: Some(2.5),
            input_tokens: Some(10),
            output_tokens: Some(5),
            total_tokens: Some(15),
            ..Figures::default()
        };
        check(good, Figures { tpot_s: Some(0.5), ..good }, "");
    }

    /// A first token after the end is moved to the end; NaN and absurd values are left out; both are flagged.
    #[test]
    fn impossible_figures_are_mended_and_flagged() {
        check(
            Figures { ttft_s: Some(3.0), e2e_s: Some(2.0), ..Figures::default() },
            Figures { ttft_s: Some(2.0), e2e_s: Some(2.0), ..Figures::default() },
            "contradictory,clamped",
        );
        check(
            Figures { ttft_s: Some(f64::NAN), e2e_s: Some(1e300), input_tokens: Some(-1), ..Figures::default() },
            Figures::default(),
            "invalid",
        );
        check(
            Figures { queue_s: Some(-0.0004), ..Figures::default() },
            Figures { queue_s: Some(0.0), ..Figures::default() },
            "clamped",
        );
    }

    /// Whether input includes cached tokens is decided by the total.
    #[test]
    fn cached_tokens_are_added_only_if_the_total_says_so() {
        let sent = Figures {
            input_tokens: Some(10),
            cached_input_tokens: Some(90),
            output_tokens: Some(5),
            total_tokens: Some(105),
            ..Figures::default()
        };
        check(sent, Figures { input_tokens: Some(100), ..sent }, "cached_added");
        check(
            Figures { total_tokens: None, ..sent },
            Figures { total_tokens: None, cached_input_tokens: Some(10), ..sent },
            "contradictory,clamped",
        );
    }
}
