//! The published benchmark rows.

/// The bundled copy; see `data/NOTICE` for source and licence.
const CSV: &str = include_str!("../../../data/neuron_decoder_benchmarks.csv");

/// One published measurement of a static batch.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchmarkRow {
    /// Such as `inf2.48xlarge`.
    pub instance_type: String,
    /// Such as `Llama-3-8B`.
    pub model: String,
    /// Tensor-parallel degree.
    pub tensor_parallel: u32,
    /// Sequences in the batch.
    pub batch: u32,
    /// Longest sequence that was compiled, in tokens.
    pub sequence_length: u32,
    /// Prompt tokens.
    pub input_tokens: u32,
    /// Such as `int8`.
    pub weight_type: String,
    /// Median time to first token, milliseconds.
    pub ttft_p50_ms: f64,
    /// Median time per output token, milliseconds.
    pub tpot_p50_ms: f64,
    /// 99th percentile of it, milliseconds.
    pub tpot_p99_ms: f64,
    /// Such as `2.18.1`.
    pub sdk: String,
}

/// All rows. A line that cannot be read is left out; a test counts them.
pub fn rows() -> Vec<BenchmarkRow> {
    let mut lines = CSV.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    lines.filter_map(|line| row(&header, line)).collect()
}

fn row(header: &[&str], line: &str) -> Option<BenchmarkRow> {
    let cells: Vec<&str> = line.split(',').collect();
    let cell = |name: &str| {
        let at = header.iter().position(|column| *column == name)?;
        cells.get(at).copied()
    };
    Some(BenchmarkRow {
        instance_type: cell("instance_type")?.to_owned(),
        model: cell("model")?.to_owned(),
        tensor_parallel: cell("tp_degree")?.parse().ok()?,
        batch: cell("batch_size")?.parse().ok()?,
        sequence_length: cell("sequence_length")?.parse().ok()?,
        input_tokens: cell("input_tokens")?.parse().ok()?,
        weight_type: cell("weight_type")?.to_owned(),
        ttft_p50_ms: cell("ttft_p50_ms")?.parse().ok()?,
        tpot_p50_ms: cell("tpot_p50_ms")?.parse().ok()?,
        tpot_p99_ms: cell("tpot_p99_ms")?.parse().ok()?,
        sdk: cell("neuron_version")?.to_owned(),
    })
}

/// Lines of the file that should be rows.
#[cfg(test)]
pub(crate) fn lines() -> usize {
    CSV.lines().skip(1).filter(|line| !line.is_empty()).count()
}
