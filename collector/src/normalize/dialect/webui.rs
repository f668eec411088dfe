//! Text Generation WebUI sends nothing a machine could read but a line of its log: `Output generated in 4.20 seconds (30.00
//! tokens/s, 126 tokens, context 52, seed 7)`.

/// What a line says of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// How long the call took, seconds.
    pub seconds: f64,
    /// Tokens generated.
    pub output_tokens: i64,
    /// Tokens in the context, which is the prompt.
    pub input_tokens: i64,
    /// Whether the rate that the line gives is the quotient of its time and tokens, both printed with two decimals.
    pub is_consistent: bool,
}

/// The engine's name.
pub const ENGINE: &str = "text_generation_webui";

/// What the line begins with, after whatever a logger puts before it.
const BEGIN: &str = "Output generated in ";

/// Calls that the lines of a log record tell of.
pub fn lines(body: &str) -> impl Iterator<Item = Line> {
    body.split(BEGIN).skip(1).filter_map(read)
}

fn read(rest: &str) -> Option<Line> {
    let (seconds, rest) = rest.split_once(" seconds (")?;
    let (rate, rest) = rest.split_once(" tokens/s, ")?;
    let (output, rest) = rest.split_once(" tokens, context ")?;
    let (context, rest) = rest.split_once(", seed ")?;
    let (seed, _) = rest.split_once(')')?;
    seed.parse::<i64>().ok()?;
    let (seconds, rate): (f64, f64) = (seconds.parse().ok()?, rate.parse().ok()?);
    let (output_tokens, input_tokens) = (output.parse().ok()?, context.parse().ok()?);
    let tokens = output_tokens as f64;
    // Half of the last decimal either way: of the time, and of the rate.
    let slowest = tokens / (seconds + 0.005) - 0.005;
    let fastest = if seconds > 0.005 { tokens / (seconds - 0.005) + 0.005 } else { f64::INFINITY };
    let is_consistent = (slowest..=fastest).contains(&rate);
    Some(Line { seconds, output_tokens, input_tokens, is_consistent })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line is found wherever it stands in a record, and as often as it stands there.
    #[test]
    fn lines_are_found() {
        let line = "Output generated in 4.20 seconds (30.00 tokens/s, 126 tokens, context 52, seed 1337)";
        let read = Line { seconds: 4.2, output_tokens: 126, input_tokens: 52, is_consistent: true };
        assert_eq!(lines(line).collect::<Vec<_>>(), [read]);
        let record = format!("12:00:01-123456 INFO {line}\nsomething else\n{line}\n");
        assert_eq!(lines(&record).collect::<Vec<_>>(), [read, read]);
    }

    /// A rate that time and tokens do not have is noticed; one within what two decimals leave open is not.
    #[test]
    fn a_rate_that_does_not_fit_is_noticed() {
        let consistent = |line: &str| lines(line).next().unwrap().is_consistent;
        assert!(!consistent("Output generated in 4.20 seconds (90.00 tokens/s, 126 tokens, context 52, seed 1)"));
        assert!(consistent("Output generated in 0.01 seconds (141.24 tokens/s, 1 tokens, context 5, seed 1)"));
        assert!(consistent("Output generated in 0.00 seconds (1514.19 tokens/s, 1 tokens, context 5, seed 1)"));
    }

    /// Lines that begin the same and go on otherwise tell of nothing.
    #[test]
    fn other_lines_are_none() {
        for line in [
            "",
            "Output generated in ",
            "Output generated in 4.20 seconds",
            "Output generated in four seconds (30.00 tokens/s, 126 tokens, context 52, seed 1)",
            "Output generated in 4.20 seconds (30.00 tokens/s, 1e9 tokens, context 52, seed 1)",
            "Output generated in 4.20 seconds (30.00 tokens/s, 126 tokens, context 52, seed 1",
            "Output generated in 4.20 seconds (30.00 tokens/s, 99999999999999999999 tokens, context 52, seed 1)",
        ] {
            assert_eq!(lines(line).count(), 0, "{line}");
        }
    }
}
