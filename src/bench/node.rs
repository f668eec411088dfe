//! Node: how fast the `cpu` engine computes here, one sequence alone and several in a step.
//!
//! The engine is driven by plans of this module's making, without a scheduler and without HTTP. The simulated engine has no speed to
//! measure: its times are made up.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use inference_node::engine::{Engine, EngineError, Sampling, SeqId, SequenceInput, cpu};
use inference_node::schedule::{Phase, StepPlan, Work};
use serde_json::{Value, json};
use service::error::{Error, Result};

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
}

/// The prompt, again and again until it is long enough.
const PROMPT: &str = "A watt is a unit of power, the rate at which energy is converted from one form to another. ";

/// Measures each batch once, after one that is thrown away, and prints the figures.
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
    for batch in &args.batch {
        let mut figures = measure(engine.as_mut(), args, &prompt, *batch).map_err(failed)?;
        figures["model"] = json!(engine.describe().model);
        figures["quantization"] = json!(engine.describe().quantization);
        figures["load_s"] = json!(round(load_s));
        super::print(args.json, &figures)?;
    }
    Ok(())
}

fn failed(error: EngineError) -> Error {
    Error::invalid("the engine cannot run this").with_source(error)
}

/// Prompts one after the other, then steps in which every sequence gets a token.
fn measure(engine: &mut dyn Engine, args: &Args, prompt: &[u32], batch: u32) -> Result<Value, EngineError> {
    let length = args.prompt_tokens;
    let begun = Instant::now();
    for slot in 0..batch {
        let sampling = Sampling { temperature: 0.0, top_p: 1.0, top_k: 0, seed: 1, ignore_eos: true };
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
    Ok(json!({
        "bench": "node",
        "profile": if cfg!(debug_assertions) { "dev" } else { "release" },
        "batch": batch,
        "prompt_tokens": length,
        "tokens": args.tokens,
        "prefill_tokens_per_s": round(f64::from(length * batch) / prefill_s),
        "decode_tokens_per_s": round(f64::from(args.tokens * batch) / decode_s),
        "step_ms": round(1e3 * decode_s / f64::from(args.tokens)),
    }))
}

fn work(slot: u32, phase: Phase, start: u32, tokens: u32) -> Work {
    let seq = SeqId(u64::from(slot));
    Work { seq, slot, phase, start, tokens, yields: true, first: start == 0, blocks: Arc::default() }
}

fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
