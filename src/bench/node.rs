//! Node: how fast the `cpu` engine computes here, one sequence alone and several in a step.
//!
//! With `--llama-cpp`, llama.cpp does the same on the same file and threads, in turns with ours; the best of all rounds counts, of
//! each. The engine is driven by plans of this module's making, without a scheduler and without HTTP. The simulated engine has no speed to
//! measure: its times are made up.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use inference_node::engine::{Engine, EngineError, Sampling, SeqId, SequenceInput, cpu};
use inference_node::schedule::{Phase, StepPlan, Work};
use serde_json::{Value, json};
use service::error::{Error, Result};

use super::llama_cpp::Peer;

/// Flags of `tokenwatt bench node`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one line of JSON for each batch.
    #[arg(long)]
    json: bool,
    /// The model, a GGUF file.
    #[arg(long, env = "TOKENWATT_MODEL")]
    model: PathBuf,
    /// Sequences in a step, one figure for each.
    #[arg(long, value_delimiter = ',', default_value = "1,8", value_parser = clap::value_parser!(u32).range(1..=64))]
    batch: Vec<u32>,
    /// Tokens of each prompt.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    prompt_tokens: u32,
    /// Tokens that each sequence is asked for after its first.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    tokens: u32,
    /// Rounds, of which the fastest counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Measure llama.cpp beside it: directory of the npm package `@node-llama-cpp/linux-x64`.
    #[arg(long, value_name = "DIR")]
    llama_cpp: Option<PathBuf>,
}

/// Seconds that prompts and answers took.
#[derive(Clone, Copy)]
struct Took {
    prefill_s: f64,
    decode_s: f64,
}

impl Took {
    const NEVER: Took = Took { prefill_s: f64::INFINITY, decode_s: f64::INFINITY };

    fn least(self, other: Took) -> Took {
        Took { prefill_s: self.prefill_s.min(other.prefill_s), decode_s: self.decode_s.min(other.decode_s) }
    }
}

/// The prompt, again and again until it is long enough.
const PROMPT: &str = "A watt is a unit of power, the rate at which energy is converted from one form to another. ";

/// Measures each batch after one that is thrown away, and prints the figures.
///
/// # Errors
/// `Invalid` if the model cannot be loaded.
pub(crate) fn run(args: &Args) -> Result<()> {
    let slots = args.batch.iter().copied().max().unwrap_or(1);
    let begun = Instant::now();
    let config = cpu::Config { model_path: args.model.clone(), slots, ..cpu::Config::default() };
    let mut engine = cpu::build(&config).map_err(failed)?;
    let load_s = begun.elapsed().as_secs_f64();
    let words = engine.text().tokenize(PROMPT).map_err(failed)?;
    let prompt: Vec<u32> = words.iter().copied().cycle().take(args.prompt_tokens as usize).collect();
    measure(engine.as_mut(), args, &prompt, 1).map_err(failed)?;
    let threads = cpu::threads();
    let (prompt_tokens, tokens) = (args.prompt_tokens, args.tokens);
    let peer = args.llama_cpp.clone().map(|package| Peer { package, prompt_tokens, tokens, threads });
    for batch in &args.batch {
        let (mut own, mut other, mut version) = (Took::NEVER, Took::NEVER, None);
        for _ in 0..args.rounds {
            own = own.least(measure(engine.as_mut(), args, &prompt, *batch).map_err(failed)?);
            if let Some(peer) = &peer {
                let speed = peer.measure(&args.model, *batch)?;
                other = other.least(Took { prefill_s: speed.prefill_s, decode_s: speed.decode_s });
                version = Some(speed.version);
            }
        }
        let mut figures = figures(args, *batch, own);
        figures["threads"] = json!(threads);
        figures["model"] = json!(engine.describe().model);
        figures["quantization"] = json!(engine.describe().quantization);
        figures["load_s"] = json!(round(load_s));
        if let Some(version) = version {
            figures["llama_cpp"] = json!(version);
            figures["llama_cpp_prefill_tokens_per_s"] =
                json!(round(f64::from(prompt_tokens * batch) / other.prefill_s));
            figures["llama_cpp_decode_tokens_per_s"] = json!(round(f64::from(tokens * batch) / other.decode_s));
        }
        super::print(args.json, &figures)?;
    }
    Ok(())
}

fn failed(error: EngineError) -> Error {
    Error::invalid("the engine cannot run this").with_source(error)
}

/// Prompts one after the other, then steps in which every sequence gets a token.
fn measure(engine: &mut dyn Engine, args: &Args, prompt: &[u32], batch: u32) -> Result<Took, EngineError> {
    let length = args.prompt_tokens;
    let begun = Instant::now();
    for slot in 0..batch {
        let sampling = Sampling { temperature: 0.0, seed: 1, ignore_eos: true, ..Sampling::default() };
        let input = SequenceInput { prompt: prompt.into(), max_tokens: args.tokens + 1, sampling };
        engine.open(SeqId(u64::from(slot)), input)?;
        engine.step(&StepPlan::exact(vec![work(slot, Phase::Prefill, 0, length)], Vec::new()))?;
    }
    let prefill_s = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    for done in 0..args.tokens {
        let works = (0..batch).map(|slot| work(slot, Phase::Decode, length + done, 1));
        engine.step(&StepPlan::exact(works.collect(), Vec::new()))?;
    }
    let decode_s = begun.elapsed().as_secs_f64();
    (0..batch).for_each(|slot| engine.close(SeqId(u64::from(slot))));
    Ok(Took { prefill_s, decode_s })
}

fn figures(args: &Args, batch: u32, took: Took) -> Value {
    let length = args.prompt_tokens;
    json!({
        "bench": "node",
        "profile": if cfg!(debug_assertions) { "dev" } else { "release" },
        "batch": batch,
        "prompt_tokens": length,
        "tokens": args.tokens,
        "prefill_tokens_per_s": round(f64::from(length * batch) / took.prefill_s),
        "decode_tokens_per_s": round(f64::from(args.tokens * batch) / took.decode_s),
        "step_ms": round(1e3 * took.decode_s / f64::from(args.tokens)),
    })
}

fn work(slot: u32, phase: Phase, start: u32, tokens: u32) -> Work {
    let seq = SeqId(u64::from(slot));
    Work { seq, slot, phase, start, tokens, yields: true, first: start == 0, blocks: Arc::default() }
}

fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
